"""English words of small talk by what they do. A word stands here if it says nothing of a person's life, whatever it stands beside."""

from __future__ import annotations

from memline.pipeline.extractors.word_list import words

__all__ = [
    "COURTEOUS",
    "DESIRES",
    "EMPTY",
    "FIRST",
    "IN_MIND",
    "KNOWN",
    "LIFE",
    "MAY_BE_CAPITAL",
    "MY_OWN",
    "MY_OWN_LAST",
    "OF_IT",
    "OF_TALK",
    "PLANS",
    "SKIPPED",
    "STATES",
    "STATES_ALONE",
]

#: Pronouns, auxiliaries, prepositions, conjunctions, quantities.
_GRAMMAR = words(
    "you your yours you're you've you'd you'll u ur r ya yall y'all yourself it it's its itself that that's this these those they "
    "there here there's here's what what's how how's why who which where where's when is are was were be been being isn't aren't "
    "wasn't weren't it'll that'll it'd that'd do does did done doing don't doesn't didn't dont didnt doesnt will can can't cannot "
    "cant could couldn't should shouldn't must may might would won't wont wouldn't shall have has had haven't hasn't let let's lemme "
    "gimme gonna gotta wanna dunno the a an and or but if as of to for with at in on about from up out off over by than like through "
    "into after before without between not no nor some any all most more many much lot lots one ones once every everything anything "
    "nothing something everyone everybody anyone somebody someone other another next last first whole own same both each cause cuz "
    "because while whether until till though although am yet ahead forward away down together instead around back rather else either "
    "neither"
)
#: Adverbs of degree, of doubt and of time without a date.
_MANNER = words(
    "forever eternally beyond overly awfully terribly so very really too just always again still even ever never maybe perhaps "
    "probably possibly almost quite pretty super such enough truly totally absolutely definitely exactly certainly indeed honestly "
    "seriously literally basically actually obviously clearly apparently frankly surely simply completely entirely extremely "
    "incredibly highly fully particularly especially hopefully fortunately unfortunately sadly luckily thankfully sincerely "
    "genuinely kindly gladly warmly deeply greatly kinda sorta sort bit little tad well also anyway anyways anyhow somehow somewhat "
    "only then now soon later already earlier lately recently right away long ago often usually sometimes whenever wherever whatever "
    "however tho rly rn atm tbh imo imho btw fyi far otherwise properly eventually finally immediately instantly quickly"
)
#: Times that greetings and wishes name.
_TIMES = words(
    "day days morning afternoon evening night weekend week time times today tonight tomorrow moment second seconds sec secs minute "
    "minutes min mins hour while year birthday holiday holidays christmas xmas easter thanksgiving"
)
#: Greetings, thanks, apologies, answers, interjections.
_CALLS = words(
    "soo noo heey yees pleease hi hey hello hiya heya howdy greetings yo sup hola ciao bonjour aloha bye goodbye byebye cya ttyl gtg "
    "brb goodnight gn gm farewell cheers welcome thanks thank thx thnx thanx ty tysm tyvm thankful thanking appreciate appreciated "
    "appreciates appreciation grateful gratitude please pls plz sorry sry apologies apology apologize apologise apologizing "
    "apologising pardon excuse forgive forgiven congrats congratulations kudos bravo props respect bless blessed god gosh goodness "
    "heavens heaven lord jesus christ yes yeah yea yep yup ya nope nah nay no ok okay okey oki okie k kk alright aye sure roger wow "
    "whoa woah oh ooh ah aha ahh aw aww awww haha hahaha heh hehe ha hah lol lmao lmfao rofl omg omfg wtf hmm hm mm mhm mm-hmm uh "
    "uhh huh uh-huh um umm er erm eh meh ugh oof oops whoops yikes yay yey yippee hooray hurray woohoo woo phew jeez geez damn dang "
    "darn heck hell crap np nvm idk ik ikr hbu wbu ditto likewise bingo yess ouch sheesh bruh tada voila touche gotcha welp xoxo xo"
)
#: What the other one is called, or praised as.
_PEOPLE = words(
    "friend buddy pal mate bro dude man guys folks dear darling honey hun love sweetie champ chief boss legend genius star hero "
    "angel gem lifesaver saviour savior wizard magician rockstar goat pro expert assistant bot chatbot robot ai machine teacher sir "
    "madam ma'am king queen treasure blessing sweetheart listener helper companion"
)
#: The talk: thinking, saying, asking, helping, laughing, beginning and ending, the other one's gifts, and the pictures this is put in.
_TALK = words(
    "blush blushing face figures offense offence offended taken lie lying lied kidding tease teasing pull leg fool exaggerate "
    "exaggerating ramble rambling rambled digress misspoke misread misheard mistyped overreact overreacted insist insists mention "
    "mentioned notice noticed realize realise realized realised recall recognize confirm confirmed confirms assure admit admire "
    "adore impress impresses charm charms fail fails failed prove proves proved boost inspire inspires inspired motivate encourage "
    "encouraged comfort comforted brighten brightened lighten warms melt melts melted amaze amazes astonish stun fascinate "
    "fascinates intrigue intrigues scare scared shock ignorance manners rudeness typo typos spelling delay absence inconvenience "
    "hassle nuisance burden pain tone attitude behavior humor humour personality sense style talent gift skill skills taste brain "
    "brains guidance assistance service hospitality generosity thoughtfulness friendship presence contribution dedication honesty "
    "modesty wit knowledge expertise memory comment comments remark statement argument opinion opinions view perspective theory "
    "logic conclusion summary example examples recommendation recommendations clue shoulder ball line lines page pages note notes "
    "bottom floor ground end beginning rest side hand hands head ear ears eye eyes chat conversation convo talks session exchange "
    "round finish finished finishing wrap wrapping sign signing log logging bounce bouncing dash run jet off stranger strangers "
    "sunshine voice voices world worlds universe planet galaxy life moon ton tons million millions bunch heaps loads zillion "
    "zillions loss straight corrected granted personal offend hush shush hoot riot blast kick scream snap shoot crystal mud weather "
    "expected messing toying flatter flatters flattering cherry win wins winning winner forever eternally pressure stress drama "
    "excuses excuse intention intentions harm purpose meaning sarcasm irony context misunderstanding slip tongue autocorrect thread "
    "chatbox thumbs fingers high-five handshake bow salute wave waves waving clap claps clapping applause toast standing ovation hat "
    "hats shoutout shout high low praise praises mission accomplished task miracle miracles wonders marvel gold golden jackpot gifts "
    "bonus cake breeze bees bee knees deal-breaker guilty charged rainbow rainbows butterflies luckier blessed stars fate destiny "
    "karma amen hallelujah namaste shalom salaam moment's beat bit-by-bit same wavelength board aboard roll rolling ride rodeo court "
    "stage yours mic spill beans dish elaborate continue proceed resume recap rewind scratch nevermind reckon gather presume "
    "conclude deduce infer contemplate ponder pondering digest digesting process processing absorb absorbing chew mull mulling "
    "brainstorm brainstorming rethink reconsider reword hearted spirited legends icons icon hero heroes superstar champion boss-like "
    "master mastermind einstein sherlock guru prodigy whiz brainiac magic get gets got getting gotten go goes went going gone come "
    "comes came coming know knows knew known see sees saw seen seeing look looks looking mean means meant think thinks thought "
    "thinking hope hopes hoping wish wishes wishing feel feels felt feeling hear hears heard hearing listen listening say says said "
    "saying tell tells told telling talk talked talking chats chatted chatting speak speaking spoke spoken ask asks asked asking "
    "answer answers answered answering help helps helped helping try tries tried trying explain explains explained explaining "
    "explanation explanations clarify clarifies clarified clarifying clarification put point points question questions wonder "
    "wondering wondered reply replies replied replying respond response responses message messages remind reminds reminded reminder "
    "understand understands understood understanding agree agrees agreed agreeing disagree believe believes believed guess guesses "
    "suppose supposed figure figured bet doubt doubts swear promise trust imagine consider considering suggest suggestion "
    "suggestions advice tip tips hint hints idea ideas plan info information detail details input feedback word words story joke "
    "jokes joking kid laugh laughs laughed laughing smile smiles smiling cry crying crack cracks cracked cracking bother bothers "
    "bothering bothered interrupt interrupting interruption disturb disturbing disturbed confuse confused confusing confusion "
    "misunderstood misunderstand mistake mistakes fault mess messed mix mixed wrong bad luck trouble problem problems issue worry "
    "worries worried mind minds matter matters fuss rush hurry hold hang wait waits waited waiting sit tight start started starting "
    "begin carry stop stopped stay staying keep keeps keeping kept leave leaving heading stand make makes made making take takes "
    "taking took give gives giving gave given want wants wanted need needs needed deserve deserves deserved earn earned seem seems "
    "seemed sound sounds sounded work works worked working turn turns happen happens happened happening change changed save saves "
    "saved saving solve solved solves fix fixed sort sorted rock rocks rule rules nail nailed crush crushed ace aced kill killed "
    "killing kills blow blown blew use useful way ways thing things stuff deal chance kindness patience support effort efforts "
    "attention company discussion one-on-one encouragement compliment compliments wisdom insight insights reason fact case track "
    "topic subject part heart hearts soul spirit spirits vibe vibes energy hug hugs kiss kisses regards joy laughter peace happiness "
    "health prosperity success fun pleasure honor honour surprise delight relief shame pity bummer news treat care cares caring "
    "enjoy enjoyed enjoying relax sleep dream dreams cheer cheering rooting root crossed count counting catch caught meet meeting "
    "met bear forget forgot forgotten remember pass spot speed touch handle manage bring brings brought rephrase repeat repeating "
    "moving move add added show shows shown share shared sharing pick follow following learn learned learnt teach taught play played "
    "call called owe owes miss missed join joining visit drop dropping stopping pop check checking checked text type typing typed "
    "read reading great return returned late ready set done clear clears clearer up-to-date speechless loud"
)
#: Judgements.
_JUDGED = words(
    "natural fine-looking sound-looking fabulous tremendous wicked ace crisp fresh bomb fierce savage bonkers ludicrous preposterous "
    "unheard outrageous staggering jaw-dropping heartfelt touching poignant profound deep hearty cordial gracious courteous "
    "considerate attentive perceptive observant intuitive resourceful knowledgeable capable competent efficient effective reliable "
    "dependable trustworthy loyal modest down-to-earth cheerful cheery upbeat positive optimistic radiant dazzling sublime exquisite "
    "refreshing puzzled puzzling baffled baffling perplexed mysterious bizarre peculiar funky quirky ironic sarcastic cheeky nerdy "
    "geeky hopeful thoughtless careless harsh blunt bold daring brutal bleak grim gloomy unlucky good great nice lovely wonderful "
    "amazing awesome fantastic perfect excellent brilliant cool sweet kind fun funny bad hard tough rough sad happy glad pleased "
    "proud delighted sure right true fine better best worse worst helpful interesting impressive incredible beautiful gorgeous "
    "adorable cute hilarious inspiring exciting excited curious alike new busy smart clever wise intelligent bright talented gifted "
    "thoughtful generous patient polite rude gentle friendly caring supportive sensible reasonable fair valid correct accurate "
    "precise spot-on neat tidy sharp quick fast easy difficult tricky complicated complex strange weird odd crazy insane wild mad "
    "unreal unbelievable surreal mind-blowing mindblowing epic legendary iconic dope rad lit sick fire outstanding exceptional "
    "extraordinary remarkable phenomenal magnificent marvelous marvellous splendid superb stellar terrific glorious spectacular "
    "stunning breathtaking magical magic divine heavenly fascinating intriguing surprising shocking astonishing astounding shocked "
    "surprised stunned amazed impressed astonished touched moved flattered honored honoured thrilled relieved stoked overjoyed "
    "pumped psyched embarrassed embarrassing ashamed afraid awful terrible horrible dreadful tragic heartbreaking unfortunate "
    "ridiculous absurd silly stupid dumb foolish goofy cheesy corny boring dull annoying frustrating disappointing disappointed "
    "upsetting scary creepy gross disgusting nasty lame useless pointless handy valuable invaluable priceless precious charming "
    "delightful pleasant enjoyable entertaining relaxing soothing comforting reassuring encouraging uplifting motivating "
    "heartwarming moving wholesome cosy cozy lucky fortunate welcome warm big huge massive tiny small major real legit serious "
    "important special unique rare classic typical random different similar familiar obvious unclear vague certain possible "
    "impossible probable likely unlikely ideal super solid decent okay alright alive informative insightful educational enlightening "
    "eye-opening thorough elegant eloquent articulate poetic creative witty genuine sincere honest humble humbled brave strong safe "
    "sound healthy wealthy merry jolly blissful peaceful restful relaxed calm quiet speedy smooth swift sorry lost clueless spotless "
    "flawless awkward dramatic exaggerated intense overwhelming overwhelmed confusing able willing eager keen free available online "
    "lazy hopeless worth worthy fitting appropriate proper careful grand top tops prime ultimate"
)


def _adverbs(adjectives: frozenset[str]) -> frozenset[str]:
    """How something is done, of what it is: beautifully, easily, terribly, magically."""
    found = set()
    for word in adjectives:
        if word.endswith("y"):
            found.add(word[:-1] + "ily")
        elif word.endswith("le"):
            found.add(word[:-1] + "y")
        else:
            found.add(word + ("ally" if word.endswith("ic") else "ly"))
    return frozenset(found)


#: Every word of small talk.
COURTEOUS = _GRAMMAR | _MANNER | _TIMES | _CALLS | _PEOPLE | _TALK | _JUDGED | _adverbs(_JUDGED)

FIRST = words("let's i i'm im i've ive i'd i'll me my mine myself we we're we've we'd we'll us our ours ourselves")
#: What somebody plans or does, however few words it takes.
PLANS = words(
    "tomorrow today tonight weekend week morning afternoon evening night going go went gone try tried trying new busy birthday "
    "holiday holidays year"
)
#: What stands between "I" and its verb and changes nothing.
SKIPPED = words(
    "forever eternally so very really too just always again still even ever never maybe perhaps probably quite pretty truly totally "
    "absolutely definitely certainly honestly seriously literally actually completely fully also only then now soon already kinda do "
    "don't did didn't dont didnt will would wouldn't should could must might may shall 'll can to a bit all not have had been gonna "
    "wanna gotta better sincerely genuinely deeply hardly"
)
#: Every word that small talk may have.
KNOWN = COURTEOUS | FIRST
#: Verbs of thinking and talking: of "I" and "we" they tell that the talk goes on, where nothing but small talk is their object.
IN_MIND = words(
    "misspoke misread misheard mistyped overreacted digress ramble rambled insist admit admire adore realize realise realized "
    "realised recall notice noticed confirm assure mentioned blush see get got mean meant guess think thought thinking suppose know "
    "knew understand understood agree agreed disagree believe wonder wondering hope hoping wish wishing appreciate apologize "
    "apologise bet swear promise trust imagine hear heard say said saying ask asked asking tell told talk talking chat speak need "
    "needed want wanted love like enjoy enjoyed doubt figure figured consider remember forget forgot misunderstood misunderstand "
    "wait waiting owe deserve thank mind care take keep let hold dunno idk assume check reckon stand continue start begin laugh "
    "laughed expect expected"
)
#: What "I am" may be without a word of life outside the talk.
STATES = words(
    "sorry glad sure certain here back ready done set listening curious impressed amazed astonished surprised shocked speechless "
    "touched flattered honored honoured confused kidding joking afraid grateful thankful fine ok okay alright good well wondering "
    "thinking hoping wishing guessing ears just leaving right wrong asking saying talking waiting counting rooting laughing crying "
    "dying"
)
#: The same, where nothing but the talk follows: "I'm off", "I'm with you on that".
STATES_ALONE = words("at off in out on up for with into lost late")
#: What "my" may own.
MY_OWN = words(
    "ignorance manners rudeness typo typos spelling delay absence wishes condolences respect compliments utmost sincere deepest "
    "sincerest warmest humble heartfelt bad fault mistake pleasure apologies apology goodness god gosh word mind point question "
    "questions thanks gratitude lord regards thoughts thought opinion honor honour message idea confusion"
)
#: What it may own at the end of what is said: "you made my day".
MY_OWN_LAST = words("face day heart friend dear love")
#: Words of small talk of "you" and "it" that tell of a life where they are said of anybody else, or of nobody: "busy at work".
LIFE = words(
    "life stress pressure drama weather win wins winner winning homework ride board stage walk park gift gifts mission task voice "
    "master memory eye eyes ear ears head hand hands brain leg pain run finish finished pages service skill skills talent scared "
    "shoulder ball end friend boss teacher king queen expert pro machine robot bot companion helper magician assistant sir madam "
    "work working worked works sick ill sleep sleeping play played learn learned learnt teach taught move moved moving call called "
    "text type typing typed meet met meeting join joining visit drop dropping stop stopped stopping check checking checked rest lost "
    "save saved saving busy new free online lazy healthy wealthy change changes changed start started starting leave left leaving "
    "carry return returned earn earned share shared sharing happen happens happened happening miss missed pass manage read reading "
    "pick treat care cares caring strong cry crying kiss kisses dream dreams health success prosperity company support broke turn "
    "turns add added show shown bring brings brought fix fixed sort sorted solve solved use useful crush crushed kill killed "
    "birthday holiday holidays christmas xmas easter thanksgiving story joke heading up-to-date"
)
#: Of these the talk itself may be the subject: "that worked".
OF_IT = words("it it's its that that's this these everything what which all how")
#: What is wanted, liked or held in the first person must be nothing but the talk.
DESIRES = words(
    "give want wanted need needed love like enjoy enjoyed keep take start begin continue stand got get know knew expected expect"
)
#: Words that name nothing at all.
EMPTY = _GRAMMAR | _MANNER | _CALLS
#: What may follow these.
OF_TALK = EMPTY | words(
    "page loss corrected straight wavelength granted board know say tell ask hear help talk chat speak idea ideas answer answers "
    "explanation advice tip tips moment second minute sec min word words question questions apologize apologise way thing things "
    "point mind bother interrupt hearing talking chatting part one clarification information info details detail want wanted need "
    "needed think thought mean meant expect expected understand repeat sense get got good great better nice deal luck hope time see"
)
#: Words of greetings that are written as names are.
MAY_BE_CAPITAL = words("christmas xmas easter thanksgiving year birthday god lord jesus you ai lol omg thank thanks ok wow")

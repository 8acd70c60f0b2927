"""What a sentence says that nobody needs to remember: greetings, thanks, acknowledgements, bare reactions, farewells.

A sentence is one if nothing but such phrases, filler words and at most two names spoken to is left of it.
"""

from __future__ import annotations

import re

from memline.pipeline.extractors.small_talk import is_small_talk
from memline.pipeline.extractors.small_talk_chinese import is_small_talk_chinese
from memline.pipeline.extractors.spans import plain
from memline.pipeline.extractors.word_list import words

__all__ = ["is_pleasantry_chinese", "is_pleasantry_english", "without_opening_chinese", "without_opening_english"]

_NICE = (
    r"(?:great|good|nice|cool|awesome|amazing|wonderful|fantastic|lovely|sweet|neat|perfect|excellent|brilliant|incredible|inspiring|"
    r"beautiful|gorgeous|exciting|interesting|impressive|fun|funny|hilarious|true|right|fair|fine|ok|okay|terrible|awful|sad|tough|rough|"
    r"crazy|wild|super|helpful|thoughtful|kind|cute|adorable|stunning|delicious|tasty|useful|rad|dope|epic|unfortunate|superb|heartwarming)"
)
_VERY = r"(?:so|really|very|pretty|quite|super|just|truly|absolutely|totally|such|a|an|too|even)"
_THAT = r"(?:that|it|this|which|these|those|they)"
_THAT_IS = rf"(?:{_THAT}(?:'s| is| was|'re| are| were|'d be| would be| will be| must be| must have been| has been)|thats|its)"
_GLAD = r"(?:glad|happy|sorry|sad|pleased|delighted|excited|proud|thrilled|stoked|relieved)"

_PHRASES = [
    r"(?:hi|hello|hey|heya|hiya|howdy|yo|greetings)(?: there| again| everyone| everybody| all| team| folks| guys)?",
    r"good (?:morning|afternoon|evening|night|day)",
    (
        rf"(?:it(?:'s| is| was) )?(?:{_VERY} )*(?:nice|good|great|lovely|wonderful|pleasure|awesome)(?: it is| it was)? "
        r"(?:to (?:see|meet|hear|talk|chat|speak|catch up)|seeing|meeting|hearing|talking|chatting|catching up)"
        r"(?: you| with| from| to| that| it| about| again| this)*"
    ),
    r"long time,? no (?:see|talk|chat)(?: you)?",
    r"how(?:'s it going|'s life|'s everything|'s your day| are you| are things| have you been| do you do| about you| was your \w+)",
    r"what'?s (?:up|new|going on|happening)(?: with you)?|what about you|and you|anything new",
    (
        r"(?:many |so many |big |huge )?(?:thanks|thank you|thank u|thx|ty|tysm|cheers|much appreciated)"
        r"(?: again| so much| very much| a lot| a bunch| a million| a ton| heaps| in advance| anyway| everyone| all| man| mate| loads)*"
        r"(?: for (?:your|the|all your|all the|everything|asking|sharing|that|this|listening|being there|checking(?: in)?|helping|"
        r"reminding me|"
        r"letting me know|understanding|telling me|listening|having me|the reminder)"
        r"(?: (?:quick|kind|great|good|lovely|helpful|detailed|nice|awesome))?"
        r"(?: (?:help|support|advice|info|information|reply|response|answer|time|tips?|suggestions?|recommendations?|explanation|"
        r"compliment|"
        r"encouragement|kind words|words|clarification|update|heads up|invite|offer|understanding))?(?: with (?:this|that|it))?)?"
    ),
    (
        r"(?:i )?(?:really |truly |so |very much |do )*appreciate (?:it|that|this|you|your (?:help|support|time|advice|kind words))"
        r"(?: so much| a lot| very much)?"
    ),
    (
        r"(?:you'?re|you are|ur) (?:very |most |so |always )?(?:welcome|the best|a lifesaver|a star|awesome|amazing|great|right|too kind|"
        r"so kind)"
    ),
    (
        r"no (?:problem|worries|prob|thanks|thank you|rush|need to apologi[sz]e|biggie)(?: at all)?|not at all|don'?t (?:worry|"
        r"mention it)(?: about it)?"
    ),
    r"my pleasure|anytime|any time|with pleasure|happy to help|glad (?:i could|to) help|glad (?:you like(?:d)?|it helped)(?: it| that)?",
    (
        r"(?:yes|yeah|yep|yup|ya|sure|ok|okay|okey|k|kk|alright|all right|right|fine|certainly|absolutely|definitely|of course|"
        r"exactly|totally|"
        r"indeed|agreed|correct|true|deal|roger|understood|noted|gotcha|nope|nah|no|sure thing|for sure|you bet|no doubt|oki|aye|done)"
    ),
    (
        r"(?:i )?(?:got it|get it|see|understand|agree|hear you|know right|know what you mean|know|guess so|think so|hope so|believe so|"
        r"totally agree|completely agree|couldn't agree more|feel you|bet|can imagine|can relate|will|do)(?: now| that| too| with you|"
        r" you)?"
    ),
    (
        r"(?:that |it |this )?(?:makes|made) (?:perfect |total |a lot of )?sense|(?:that )?works(?: for me)?(?: too)?|that (?:helps|"
        r"will do)(?: a lot)?"
    ),
    rf"(?:{_THAT} )?(?:sounds?|looks?|seems?) (?:like )?(?:{_VERY} )*{_NICE}(?: (?:plan|idea|fun|to me|to hear|time|deal|day|there))*",
    (
        rf"(?:{_THAT_IS}|how|what|you look|looking|looks|having|have|had)? ?(?:{_VERY} )*{_NICE}(?:,? (?:and|&) (?:{_VERY} )*{_NICE})?"
        r"(?: (?:to hear|to see|to know|news|idea|plan|point|question|job|work|one|stuff|thing|choice|photo|pic|picture|shot|time|day|"
        r"for you|of you|"
        r"with me|by me|luck|start|story|advice|catch|call|then|really|enough|again|indeed|too|about that|about it|on you|there|man|"
        r"weekend|evening|week|trip|rest of your day|afternoon|one too))*"
    ),
    (
        rf"(?:i'?m |i am |we'?re |i was )?(?:{_VERY} )*{_GLAD}(?: that)? (?:to (?:hear|see|know|help)|for you|of you|you (?:like|"
        rf"liked|enjoyed|asked)|about that)"
        r"(?: that| it| this| about that| from you)*"
    ),
    (
        r"(?:i'?m|i am) (?:doing |feeling )?(?:so |very |really |pretty |just )?(?:fine|good|great|well|ok|okay|alright|here|sorry|"
        r"glad|all set|set|done)"
        r"(?: now| too| today| for now| for you| here)*"
    ),
    r"(?:doing|feeling) (?:great|good|well|fine|ok|okay)",
    (
        r"(?:all|everything) (?:good|is good|is fine|is great|'s good|the best)|not (?:bad|much)|same here|me too|me neither|likewise|"
        r"ditto|so am i|same to you"
    ),
    (
        r"(?:big )?(?:congrats|congratulations|kudos|bravo|well done|way to go|good for you|cheers|hooray|yay|woohoo|hurray|hats off)"
        r"(?: to you| on that| again| on everything)*"
    ),
    (
        r"(?:best|good) (?:of )?luck(?: with (?:that|it|everything))?|fingers crossed|break a leg|keep it up|keep up the (?:good|"
        r"great) work|hang in there|"
        r"you(?:'ve)? got this|go for it|stay strong|rooting for you|keep (?:going|me posted|me updated|in touch)|stay in touch"
    ),
    (
        r"(?:bye|goodbye|bye bye|see (?:you|ya)|later|talk (?:to you )?(?:soon|later)|catch you later|cya|ttyl|farewell|"
        r"until next time|take care|"
        r"take it easy|good night|sleep well|sweet dreams|so long|speak soon|chat soon)(?: then| later| soon| tomorrow| again|"
        r" of yourself| next time| around)*"
    ),
    (
        r"(?:have|enjoy) (?:a |an |your |the )?(?:great|good|nice|lovely|wonderful|safe|fun|awesome|amazing|blast|fantastic|"
        r"rest of your)* ?"
        r"(?:day|one|time|evening|night|weekend|week|trip|flight|blast|rest of your day|holidays?|meal|fun|it)(?: too| ahead| everyone)*"
    ),
    (
        r"(?:oh|wow|whoa|woah|ah|aha|ahh|aw|aww|awww|ooh|oops|ouch|hm+|umm?|uh|uh huh|mhm|haha+|hahaha|hehe|lol|lmao|rofl|omg|"
        r"oh my god|oh my gosh|"
        r"my goodness|gosh|jeez|geez|damn|dang|phew|yikes|ugh|meh|well|welp|wowza|huh|eh|pff|yum|god)"
    ),
    (
        r"(?:i )?love (?:it|that|this)|i like (?:it|that)|(?:i )?(?:can'?t|cannot) wait(?: to (?:hear|see) (?:it|that|more|about it))?|"
        r"me as well"
    ),
    r"no way|for real|really|seriously|is that so|you don'?t say|tell me more|go on|do tell|i'?m all ears|say no more|i'?m listening",
    r"let me (?:know|think|see|check)(?: (?:about it|about that|if you (?:need|have) (?:any|anything|more|any other)(?: \w+){0,3}))?",
    (
        r"(?:please )?feel free to (?:ask|reach out|let me know)(?: (?:if|me|for|any|more|help|questions|time))*|"
        r"is there anything else(?: (?:i can|you need|you'd like)(?: \w+){0,5})?|"
        r"i hope (?:this|that|it|these) (?:helps?|works)(?: (?:you|a bit|you out|for you))*|i hope so|hope (?:this|that|it) helps?|"
        r"i hope you'?re (?:doing )?well|"
        r"hope you'?re (?:doing )?(?:well|good|great)|hope (?:all is|everything is|all's) (?:well|good|great|ok)"
    ),
    r"(?:happy|merry) (?:new year|christmas|easter|holidays|birthday|friday|monday|weekend|thanksgiving|diwali|anniversary)(?: to you)?",
    (
        r"(?:one|just a|give me a|hold on a|wait a) (?:moment|second|sec|minute|min)|hold on|wait|brb|be right back|hang on|never ?mind|"
        r"nvm|forget it|whatever"
    ),
    (
        r"(?:excuse|pardon) me|(?:i )?(?:do )?apologi[sz]e(?: for (?:that|the \w+))?|my (?:bad|apologies|mistake)|sorry(?: about that|"
        r" for that| to hear that| for the \w+)?|"
        r"i'?m (?:so |very |really )?sorry(?: (?:to hear that|about that|for that))?"
    ),
    (
        r"(?:quick|a|one|another|just a quick|i have a) (?:quick )?question(?: for you)?|can i ask you something|could you help me|"
        r"can you help me|i need (?:your |some )?help|"
        r"help me(?: out)?|please help(?: me)?|i was wondering|i have (?:a|some) questions?"
    ),
    (
        r"here(?:'s| is| are) (?:my|the|some|your) (?:current |updated |full |sample |relevant )*(?:code|snippet|error|output|example|"
        r"file|log|function|version)"
        r"(?: snippet| so far| example| message| i have| again)*|as (?:follows|below|above)|see (?:below|above|attached)|like this|"
        r"for example|for instance"
    ),
    (
        r"let'?s (?:go|do (?:it|this|that)|get started|start|see|begin|continue|move on)|sounds (?:good|great|like a plan)|carry on|"
        r"please (?:continue|go on|proceed)|next|"
        r"i'?ll (?:give it a try|try (?:it|that)(?: out)?|do that|check it out|let you know|keep (?:that|it) in mind|think about it|"
        r"be right back|get back to you)"
    ),
    (
        r"hope (?:your|the) (?:day|week|weekend|morning|evening|trip|holidays?) (?:is|was|goes|went|has been)(?: going)?"
        r"(?: (?:very|really))? (?:well|great|good|nice|fine|smoothly)(?: so far)?|glad to be (?:back|here)|"
        r"(?:ok(?:ie|ey)|okey) ?-?do(?:kie|key|ke)|fine (?:by|with) me|works for me|up to you|as you wish|"
        r"well (?:said|put|played)|good call|good one|fair point|point taken|spot on|same difference"
    ),
    (
        r"(?:i )?owe you(?: one| a lot| big time)?|(?:really |so )?appreciate (?:your|the) (?:patience|time|help|kindness|effort|"
        r"understanding|feedback|support|offer|thought)|no need to (?:thank me|worry|apologi[sz]e|rush)|it was nothing|"
        r"(?:it's )?nothing(?: much| really| else)?|(?:that's|that is|that'll be) all(?: for (?:now|today))?|on it"
    ),
    (
        r"(?:sending|lots of|much|big|all my|with) (?:you )?(?:(?:lots of|big|some|good|positive|warm) )*(?:hugs?|love|vibes|wishes|"
        r"thoughts|kisses)|(?:best|kind|warm) (?:regards|wishes)|safe (?:travels?|trip|journey|flight|drive)(?: home)?|stay (?:safe|well|"
        r"healthy|warm)|get well(?: soon)?|rest well|(?:i'?m )?looking forward to (?:it|that|this|hearing from you|seeing you|meeting you|"
        r"talking (?:to you|soon|again)|our (?:chat|call|talk))"
    ),
    (
        r"(?:it'?s |it is |we'?re |i'?m )?(?:all|always) (?:good|well|okay|ok|right)(?: then| here)?|loud and clear|"
        r"(?:it'?s |it is |it was )?(?:so |very |really )?(?:nice|good|great|lovely|fun|a pleasure) to be (?:chatting|talking|here)"
        r"(?: with you)?|"
        r"(?:i'?m |so |very )*(?:pleased|delighted|honou?red|grateful|thankful|obliged)(?: (?:to (?:meet|know|see|have) you|"
        r"for (?:your|the|all your) (?:help|support|advice|time|patience|kindness|kind words)))|"
        r"(?:i'?m )?(?:so |very |really )?(?:glad|happy) (?:you'?re|you are) (?:here|back|okay|ok|well|safe)|bless (?:your heart|ya|u)|"
        r"(?:that|it|this) (?:clears (?:it|that|things) up|helps|helped|works)(?: a lot)?|"
        r"(?:you|that|it|this)(?:'s| has)? (?:really |just |totally )?made my (?:day|morning|week|evening)|poor (?:you|thing)|"
        r"(?:later|see ya|see you later),? (?:gator|alligator)|let'?s (?:catch up|talk|chat|keep in touch|stay in touch)"
        r"(?: (?:soon|later|again|tomorrow))*|ciao|adios|au revoir|hasta la vista|peace(?: out)?|hugs?|xoxo|xx|namaste|salut|hola|aloha"
    ),
    r"(?:a|the|my) (?:pleasure|test|testing)|test(?:ing)?|ping|asap|please|pls|plz|btw|by the way|anyway|anyways|fyi",
    (
        r"you rock|(?:that |this |it )?(?:makes|made) me (?:so |very |really )?(?:happy|sad|smile|laugh|proud)|"
        r"you too|you know|right back at you|same|ha|bless you|god bless|cheer up|welcome(?: back)?|good to go|very well|not really|"
        r"not yet|as always|"
        r"maybe|perhaps|probably|i guess|i think|i suppose|i don'?t know|idk|not sure|i'?m not sure|no idea"
    ),
]
_PLEASANT = re.compile(r"(?<![\w'])(?:" + "|".join(_PHRASES) + r")(?![\w'])")
_FILLER = words(
    "a an the so and but or too very really just much again now then there here all you u your me my i it that this is are was to for "
    "with of "
    "as well oh wow please buddy friend friends dude bro man guys everyone everybody girl mate pal dear sir madam ma'am folks team "
    "tomorrow everything dreams always ever even still also quite such more lot lots some any one today soon on"
)
_WORDS = re.compile(r"[^\W_]+(?:'[^\W_]+)*")

_THANKS = re.compile(r"(?:ok |okay |and |oh |wow )?(?:many |so many )?(?:thanks|thank you)(?: [\w',-]+){0,9}\W*")
_FACTUAL = re.compile(r"(?<=[a-z,] )[A-Z]|\b(?:I|my|I'm|we|our)\b")
_BINDS = words(
    "in to at from of for with is was are am named called on about by via near a an the my his her our their and or like than love loves"
)
_BOUND = words("is was are has had and or too")

#: Beyond this a sentence is never a pleasantry: it says something.
_LONGEST = 160

_OPENING = re.compile(
    r"(?:(?:hi|hello|hey|hiya|heya|good (?:morning|evening|afternoon))(?: there| again| everyone| all|"
    r" guys)?(?:[ ,]+[A-Z][\w'’-]{1,20})?\s*[,!:–—-]\s*"
    r"|(?:hi|hello|hey)\s+(?=(?:i|i'm|i’m|my|we)\b)"
    r"|(?:many |ok |okay |great |cool )?(?:thanks|thank you|thx)(?: so much| a lot| again)?(?:[ ,]+[A-Z][\w'’-]{1,20})?\s*[,!:–—-]\s*"
    r"|(?:well|oh|ah|wow|yeah|yes|yep|yup|yea|no|nope|nah|ok|okay|sure|right|alright|haha|hahaha|lol|btw|by the way|(?:but |and |"
    r"so )?anyways?|actually|"
    r"also|fyi|"
    r"just so you know|so|and|but|plus|hm+|um+|uh|aww?|of course|absolutely|definitely|exactly|i see|got it|sorry|no worries|"
    r"for your information|oh and|to be honest|honestly|you know|you know what|guess what|good question|great question|no problem|"
    r"please)\s*[,:!–—…]+\s*"
    r"|(?:oh|btw|by the way|so|and|but|well|also|actually|fyi|yeah|ok|okay|"
    r"just so you know(?: that)?)\s+(?=(?:i|i'm|i’m|i've|i’ve|i'll|i’ll|"
    r"i'd|i’d|my|we|our)\b))",
    re.IGNORECASE,
)

_CHINESE_PHRASES = (
    "你好|您好|大家好|嗨|哈喽|哈啰|嘿|早上好|上午好|中午好|下午好|晚上好|早安|午安|晚安|早|在吗|在不在|好久不见|最近怎么样|最近还好吗|你怎么样|你呢|吃了吗|"
    "非常感谢|十分感谢|太感谢|多谢|谢谢|感谢|谢啦|谢了|辛苦了|辛苦|麻烦你了|麻烦您了|麻烦了|打扰了|不好意思|对不起|抱歉|没关系|没事儿?|不客气|不用谢|别客气|应该的|"
    "好的|好呀|好啊|好吧|好嘞|好滴|可以的?|行|没问题|当然可以|当然|嗯+|哦+|噢|啊+|哈哈+|呵呵|嘻嘻|嘿嘿|哇+|哎呀?|唉|呃|额|"
    "是的|是啊|对的?|没错|确实|的确|同意|有道理|明白了?|知道了?|了解了?|懂了|收到|清楚了?|原来如此|原来是这样|这样啊|"
    "太好了|太棒了|真棒|很棒|真好|很好|不错|厉害|真厉害|牛|赞|完美|漂亮|恭喜你?|祝贺你?|加油|祝你好运|祝[你您][^，。！\\d]{0,6}(?:愉快|顺利|开心|快乐|成功|幸福)|祝你|好运|一切顺利|生日快乐|新年快乐|节日快乐|周末愉快|"
    "再见|拜拜|回头见|回见|下次见|明天见|回头聊|下次聊|先这样|改天聊|保重|回聊|慢走|我先走了|我先下了|我去忙了|"
    "请问|请教一下|问一下|想问一下|我想问一下|我想问|有个问题|帮个忙|帮帮我|你的帮助|你的建议|您的帮助|您的建议|帮助|支持|听起来|看起来|很有意思|有意思|很有帮助|有帮助|"
    "我觉得可以|我知道了|我明白了|我懂了|我很好|我还好|我也是|我也觉得|说得对|你说得对|那就好|那好|随便|都行|算了|等一下|稍等|稍等一下|等等|继续|请继续|下一个|测试一下?|就这样吧?|"
    "过奖了?|哪里哪里|您客气了|客气了|请多关照|多多关照|小事一桩|小事一件|小事|举手之劳|帮了(?:我)?(?:大忙|很大的忙)|有空再聊|改日再聊|晚点再?聊|以后再聊|"
    "你还好吗|你忙吗|有空吗|注意休息|好好休息|早点休息|一路平安|一路顺风|路上小心|注意安全|好梦|替你开心|替你高兴|为你开心|为你高兴|给力|绝了|好哒|"
    "各位|朋友们|又见面|好久没(?:联系|聊|见)|陪我(?:聊天|说话)|分享|客气|而已|说得(?:太|真|很)?(?:对|好)|羡慕|我先去?忙|先去忙|去忙|先走|"
    "(?:祝|愿|希望)(?:[你您]|大家)?(?:早日|一路|旅途|旅行|工作|学习|考试|天天|每天|永远|周末|假期|万事|身体)?(?:康复|愉快|顺利|平安|开心|快乐|健康|如意|成功|加油)|"
    "(?:周末|今天|最近|假期|昨晚)(?:过得|睡得|忙得)?(?:怎么样|好吗|还好吗|如何)|过得怎么样|想你|想念|久等|请稍|请慢|请便|荣幸|幸会|久仰|"
    "感激不尽|么么哒|不麻烦|随时欢迎|欢迎欢迎|欢迎|没毛病|必须的|可爱|别难过|别担心|别着急|别急|早日康复|祝早日康复|抱抱|下次再聊|同感|深有同感|言之有理|说的是|赞同|认同|让我想想|我想想|我考虑一下|我试试看?|就到这里|没别的了|暂时没有|"
    "[你您]的(?:耐心|时间|分享|回复|理解|解答|关心|配合|提醒|陪伴|好意|鼓励|支持)|"
    "希望对你有帮助|希望能帮到你|很高兴认识你|很高兴|高兴|认识你|见到你|帮到你|能|为你"
)
_CHINESE_PLEASANT = re.compile(_CHINESE_PHRASES)
_CHINESE_FILLER = re.compile(r"[了啊吧呀呢哦哈嘛的啦哟呗么嗯你您我们大家真很太非常也都就那这是啥一下给对和又还再先都之前\W\d_]+")
_CHINESE_OPENING = re.compile(
    r"(?:你好|您好|大家好|嗨|哈喽|嘿|早上好|下午好|晚上好|谢谢你?|感谢|好的|好呀|好啊|嗯+|哦+|哈哈+|哇+|对了|是的|对|没错|请问|顺便说一下|顺便说一句|顺便|其实|另外|还有|不好意思|对不起|啊|那个)"
    r"[啊呀了，,！!、~～：:\s]+"
)


def is_pleasantry_english(sentence: str) -> bool:
    """Nothing in *sentence* is worth a memory."""
    if len(sentence) > _LONGEST:
        return False
    if any(character.isdigit() for character in sentence):
        return False
    if _THANKS.fullmatch(plain(sentence).strip()) and not _FACTUAL.search(sentence):
        return True
    if is_small_talk(sentence):
        return True
    found = _WORDS.findall(_PLEASANT.sub(" ", plain(sentence)))
    rest = [word for word in found if word not in _FILLER]
    if not rest:
        return True
    # Names spoken to ("Thanks, Mel!") are left over; a sentence that is nothing but names says something else.
    names = {plain(word) for word in re.findall(r"[A-Z][^\W\d_]+", sentence)}
    return len(rest) <= 2 and all(word in names for word in rest) and _is_spoken_to(sentence, rest)


def _is_spoken_to(sentence: str, names: list[str]) -> bool:
    """The names stand at the start, at the end or between marks, and no word before makes them part of what is said ("hello to Berlin")."""
    low = plain(sentence)
    for name in names:
        found = re.search(rf"(?:([^\W_]+) )?\b{re.escape(name)}\b\W*([^\W_]+)?", low)
        if found is None or found.group(1) in _BINDS or (found.group(2) is not None and found.group(2) in _BOUND):
            return False
    return True


def without_opening_english(sentence: str) -> str:
    """*sentence* without greetings and interjections before what it says ("Hi, I'm Ana" -> "I'm Ana")."""
    for _ in range(4):
        found = _OPENING.match(sentence)
        if found is None or found.end() >= len(sentence):
            break
        sentence = sentence[found.end() :]
    return sentence


def is_pleasantry_chinese(sentence: str) -> bool:
    """Nothing in *sentence* is worth a memory."""
    if len(sentence) > _LONGEST // 2 or any(character.isdigit() for character in sentence):
        return False
    return not _CHINESE_FILLER.sub("", _CHINESE_PLEASANT.sub("", sentence)) or is_small_talk_chinese(sentence)


def without_opening_chinese(sentence: str) -> str:
    """*sentence* without greetings and interjections before what it says."""
    for _ in range(4):
        found = _CHINESE_OPENING.match(sentence)
        if found is None or found.end() >= len(sentence):
            break
        sentence = sentence[found.end() :]
    return sentence

"""Word lists that tell names from words with a capital, and topics from figures of speech. All lower-cased."""

from __future__ import annotations

__all__ = [
    "CALENDAR",
    "COMMON_STARTS",
    "GENERIC",
    "GENERIC_HEADS",
    "JOINERS",
    "MODEL_WORDS",
    "OPENERS",
    "ROLE_NOUNS",
    "ROLE_WORDS",
    "SPEAKERS",
    "VAGUE",
]

#: The parties of a conversation and its parts: never a name.
SPEAKERS = frozenset("user users assistant human agent bot".split())
GENERIC = SPEAKERS | frozenset(
    """
    customer client person people memory message messages conversation chat session system top everyone someone anyone nobody
    something anything everything nothing today tomorrow yesterday tonight morning afternoon evening night weekend week month year
    day summer autumn fall winter spring monday noon ok okay yes no yeah hi hello hey thanks thank please
    用户 助手 客户 对话 消息 会话 今天 明天
    昨天
    """.split()
)

CALENDAR = frozenset(
    """
    january february march april may june july august september october november december jan feb mar apr jun jul aug sep sept oct
    nov dec monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun am pm est pst cet
    utc gmt q1 q2 q3 q4
    """.split()
)

#: Capitalised at the start of an exclamation or a clause, and taken for names by the tagger.
OPENERS = frozenset(
    """
    i i'm i'd i'll i've im a an the this that these those it he she we they you my your his her our their its there here hi hello
    hey hiya yo dear wow woah whoa woohoo wanna gonna gotta lemme oof woo dang yum yay hmmm mmm phew yikes y'all agreed yeah yep
    yes yup no nope nah ok okay oh ooh ah aww aw haha hahaha lol lmao omg ugh hmm umm um uh well thanks thank thx please sorry
    congrats congratulations cheers welcome bye goodbye gotcha absolutely definitely totally exactly sure cool nice great awesome
    amazing good glad happy sounds looks lovely love wonderful keep take let lets let's so and but or if when while because since
    although though after before then now also just maybe perhaps anyway btw what who where why how which whose did do does is are
    was were have has had can could will would should may might must in on at for from with without about by to of as like not
    never always sometimes usually often recently currently mr mrs ms update note reminder todo fyi ps re fw fwd
    """.split()
)

#: Words that often begin a sentence; without a tagger a single one of them is no name.
COMMON_STARTS = OPENERS | frozenset(
    """
    all any some every each both many much most few several one two three four five first last next new old other another such
    only even still yet already soon later once again today tomorrow yesterday there everyone someone people going planning
    working looking trying wants want needs need prefers prefer likes enjoys loves hates plans works lives moved bought remember
    remind tell ask call send book buy get make give show find write read use add set check see go come meet mom dad mum mother
    father sister brother wife husband son daughter friend boss team meeting dinner lunch breakfast coffee work home
    """.split()
)

#: May stand between two parts of a name.
JOINERS = frozenset("of the de del della di da do dos das du la le van von der den ter bin ibn al el y e".split())

#: A number after one of these is a part of the name.
MODEL_WORDS = frozenset(
    """
    gen generation mk mark series version ver model type class level room suite gate terminal platform flight route highway
    building apartment apt unit section chapter volume episode season part phase area zone apollo boeing airbus windows office
    python java php node django postgres postgresql ios ipados android macos ubuntu debian fedora galaxy pixel surface iphone ipad
    playstation xbox ps switch pro max plus ultra mini air kindle canon nikon sony fujifilm leica tesla audi bmw mazda porsche
    formula channel radio web covid
    """.split()
)

ROLE_NOUNS = frozenset(
    """
    engineer manager director developer analyst officer president consultant architect scientist designer intern associate
    coordinator specialist administrator technician representative programmer researcher professor lecturer teacher nurse
    accountant supervisor executive secretary ceo cto cfo coo cio vp svp evp
    """.split()
)
ROLE_WORDS = ROLE_NOUNS | frozenset(
    """
    senior junior lead principal staff chief vice head assistant deputy regional product project program software hardware data
    machine learning marketing sales finance financial operating operations technical technology information account customer
    success human resources business development security quality research graduate mechanical electrical civil chemical site
    reliability full stack frontend backend web general managing creative art
    """.split()
)

#: Adjectives and quantities that say nothing about a topic; stripped from its front.
VAGUE = frozenset(
    """
    new old good great nice big small little large long short high low best better bad worst favorite favourite main major
    important recent current previous former last next first second third other another own same different various several many
    few more most some any all such certain whole entire real only very really lovely wonderful amazing awesome beautiful special
    interesting upcoming future past early late daily weekly monthly yearly usual common general specific possible available full
    free easy hard difficult busy local able much kind positive huge wild cool negative true right meaningful memorable exciting
    inspiring powerful supportive strong tough loving rewarding fun funny sweet cute fantastic incredible perfect super beloved
    unique creative stunning yummy delicious cozy quick slow heartfelt touching necessary significant total enough less little
    younger older bigger better greater happy proud deep peaceful surreal solo future additional extra regular similar personal
    """.split()
)

GENERIC_HEADS = frozenset(
    """
    thing things way ways time times lot lots kind kinds sort sorts bit bits part parts type types number numbers amount place
    places day days week weeks weekend weekends month months year years hour hours minute minutes second seconds moment morning
    afternoon evening night today tomorrow yesterday people person someone something anything everything nothing everyone one ones
    stuff case cases fact facts reason reasons idea ideas question questions answer answers example examples point points work
    info information data user users assistant impact difference change changes experience experiences adventure adventures joy
    fun ride love happiness step journey vibe vibes job words moments memories support feeling feelings time spot effort efforts
    opportunity opportunities while couple end start beginning rest side news chance matter deal sense mind luck
    """.split()
)

"""Turns that say nothing worth a memory, and what the extractor learned from each list.

- PLEASANTRIES: 200 by which it is measured.
- OTHER: 180 in other wording, from which it learned something (`rules-4`).
- MORE: 230 from which it learned the words of small talk (`rules-5`).
- HELD_OUT: 60 that were written after `rules-4`, from which it learned nothing; whoever wrote `rules-5` had seen them, and tuned on none.
- HELD_OUT_LATER: 60 that were written after `rules-5` was done. Nothing may be tuned on either held-out list: what is learned from one of
  them makes it a list like the others, and calls for a new one.

Turns that look like these and do tell something are in `bench/look_alikes.py`.
"""

from __future__ import annotations

__all__ = [
    "HELD_OUT_CHINESE",
    "HELD_OUT_ENGLISH",
    "HELD_OUT_LATER_CHINESE",
    "HELD_OUT_LATER_ENGLISH",
    "MORE_CHINESE",
    "MORE_ENGLISH",
    "OTHER_CHINESE",
    "OTHER_ENGLISH",
    "PLEASANTRIES_CHINESE",
    "PLEASANTRIES_ENGLISH",
]

PLEASANTRIES_ENGLISH = (
    "Hi", "Hello!", "Hey there", "Good morning!", "Good evening, everyone", "Hi again", "Hey, how are you?",
    "Hello, how are you today?", "What's up?", "How's it going?", "How have you been?", "Long time no see!",
    "Nice to meet you", "It's great to hear from you!", "Good to see you again.", "Happy Friday!", "Happy birthday!",
    "Merry Christmas!", "Hope you're doing well.", "Hey! Hope all is well.", "Thanks", "Thank you!",
    "Thank you so much for your help", "Thanks a lot, that's really helpful!", "Many thanks", "thx", "ty!",
    "Thanks again, you're the best", "Cheers mate", "Much appreciated", "I really appreciate it",
    "Thanks for the quick reply!", "Thank you for listening.", "Thanks for asking!", "Great, thanks!",
    "Perfect, thank you", "Awesome, thanks so much!", "Ok thanks bye", "You're welcome", "You're very welcome!",
    "No problem", "No worries at all", "Don't mention it", "My pleasure!", "Anytime!", "Ok", "Okay, got it", "Sure",
    "Sure thing!", "Alright", "Yes", "Yes, please", "Yep", "No", "Nope, that's all", "Got it, thanks", "I see",
    "I understand", "Makes sense", "That makes a lot of sense", "Understood.", "Noted", "Fair enough", "Of course",
    "Absolutely!", "Exactly", "True", "You're right", "I agree", "I totally agree with you", "Right on",
    "Sounds good", "Sounds great to me!", "That sounds like fun!", "That's awesome!", "Wow, that's amazing!",
    "That's so cool", "How exciting!", "Oh no, I'm sorry to hear that", "So sorry to hear that.",
    "Aww, that's so sweet!", "Haha", "lol", "Hahaha that's hilarious", "Congrats!", "Congratulations, well done!",
    "Good luck!", "Best of luck with that!", "Fingers crossed!", "Keep it up!", "You've got this!", "Bye",
    "Goodbye!", "See you later", "See you tomorrow!", "Talk to you soon", "Take care!", "Good night, sleep well",
    "Have a nice day!", "Have a great weekend!", "Enjoy!", "Wow", "Great", "Perfect", "Interesting", "Never mind",
    "One moment please", "Can you help me?", "I have a question", "Could you help me with something?",
    "Are you there?", "Let me think about it", "Let me know", "Looking forward to it!", "Can't wait!", "Me too",
    "Same here", "I'm fine, thanks. And you?", "I'm good, thank you!", "Not bad",
)  # fmt: skip

PLEASANTRIES_CHINESE = (
    "你好", "您好！", "嗨", "大家好", "早上好！", "晚上好", "晚安", "你好，最近怎么样？", "好久不见！",
    "好久没聊了，你还好吗？", "在吗？", "谢谢", "谢谢你！", "非常感谢", "太感谢了", "多谢多谢", "谢谢你的帮助",
    "谢谢你的建议", "辛苦了", "麻烦你了", "不客气", "没关系", "没事", "不用谢", "好的", "好的，谢谢", "好呀", "好吧",
    "可以", "行", "没问题", "当然可以", "嗯嗯", "哦哦", "哈哈", "哈哈哈哈", "哇，太棒了！", "真厉害", "太好了！",
    "真不错", "很有意思", "是的", "对的", "没错", "确实", "我同意", "有道理", "明白了", "我知道了", "了解", "收到",
    "原来如此", "恭喜恭喜！", "加油！", "祝你好运", "祝你生日快乐！", "新年快乐！", "周末愉快", "再见", "拜拜",
    "明天见", "回头聊", "先这样吧", "保重", "请问一下", "我想问一下", "帮我个忙好吗？", "等一下", "继续", "算了",
    "听起来不错", "对不起", "不好意思，打扰了", "抱歉", "很高兴认识你", "我也是", "那就好", "我很好，你呢？", "测试",
    "嗯，我明白了，谢谢",
)  # fmt: skip

OTHER_ENGLISH = (
    "Morning!", "Hiya, hope your week is going well", "Evening all", "Hey you, what's new?", "Glad to be back!",
    "So nice talking to you", "Thanks a ton", "Thank you kindly", "That was super useful, thanks!",
    "Thanks, I owe you one", "Appreciate your patience", "No need to thank me", "It was nothing", "Okie dokie",
    "Gotcha!", "Yup, that works", "Fine by me", "Roger that", "Will do!", "Couldn't agree more", "Well said",
    "That is such great news!", "I'm so happy for you!", "Oh wow, incredible!", "Yikes, that's rough",
    "Hang in there!", "Sending hugs", "Rooting for you!", "Catch you later", "Have a good one", "Sweet dreams!",
    "Safe travels!", "Just a sec", "Sorry, my bad", "Quick question for you", "Hello? Anyone there?", "Ha, good one",
    "Ok cool", "All good here", "Speak soon!", "Good afternoon!", "Hello again, nice to be chatting", "Hey hey",
    "How's your morning?", "How goes it?", "What's cracking?", "Pleased to meet you!", "Glad you're here",
    "Thanks for everything today", "Thank you, that clears it up", "Thank you ever so much",
    "Grateful for your help!", "Bless your heart", "Don't worry about it", "It's all good", "Okay then",
    "Yes indeed", "Nah, I'm good", "Righto", "Loud and clear", "Good point", "That's wild!", "So proud of you!",
    "You made my day!", "Poor you", "Hugs!", "Have fun!", "Later gator", "Ciao!", "Until tomorrow!", "Be right back",
    "Hold on a second", "Excuse me", "Mind if I ask something?", "You still there?", "Hehe nice one",
    "All right, cool", "I'm doing okay, you?", "Let's catch up soon!", "Peace!", "Good day to you",
    "Hey, it's me again", "Hello, hope you had a good weekend", "Hi, are you busy?", "How was your weekend?",
    "How's everything with you?", "What a lovely surprise!", "It's been a while!", "Thanks for having me",
    "Thank you for your time today", "Thanks, that answers my question", "Thanks, I'll give it a try",
    "You've been so helpful", "I can't thank you enough", "You're a star!", "Always happy to help",
    "No trouble at all", "Okay, sounds like a plan", "Sure, why not", "Yeah, totally", "Mm-hmm",
    "Right, I see what you mean", "Ah, I get it now", "Good to know!", "Oh that's too bad", "That must be hard",
    "Wow, congratulations!", "I'm really proud of you", "That's hilarious, haha", "I love that!",
    "Great minds think alike", "Hope it goes well!", "Wishing you all the best", "Take it easy!", "Bye for now",
    "Have a lovely evening", "See you around!", "Sorry for the late reply", "Let's do it!", "Please go ahead",
)  # fmt: skip

OTHER_CHINESE = (
    "哈喽", "下午好呀", "嘿，最近还好吗？", "感谢你的耐心", "十分感谢您", "帮了大忙了，谢谢", "别客气", "小事一桩",
    "好嘞", "嗯好的", "我懂了", "说得对", "太赞了", "真为你高兴", "哎呀", "一切顺利！", "慢走", "下次再聊",
    "稍等一下", "辛苦啦，晚安", "嗨嗨", "早呀", "中午好", "吃饭了吗？", "最近忙吗？", "感激不尽", "谢谢啦，么么哒",
    "不麻烦", "随时欢迎", "没毛病", "懂啦", "好说", "必须的", "太牛了", "好可爱呀", "别难过", "早日康复", "晚点聊",
    "回头见", "好的呢，拜拜", "各位好", "你好呀，又见面了", "周末过得怎么样？", "好久没联系了", "太谢谢你了",
    "谢谢你陪我聊天", "感谢分享", "客气啦", "举手之劳而已", "好的好的", "可以呀", "嗯，知道了", "原来是这样啊",
    "说得太对了", "真羡慕你", "祝你早日康复", "祝旅途愉快", "我先去忙了，拜拜", "请稍等", "没事的，别担心",
)  # fmt: skip

HELD_OUT_ENGLISH = (
    "Hello hello!", "Hi, it's nice to see you online", "Good to have you back", "How are you feeling today?",
    "I hope your morning is off to a good start", "How was your day?", "Did you sleep well?",
    "Glad to hear from you", "Thanks so much, you saved me", "Thank you, that means the world", "Very kind of you",
    "That is so thoughtful of you", "I'm thankful for your support", "Thanks, noted!", "Sure, no rush",
    "Okay, take your time", "Whenever you're ready", "Yes, that's right", "Yes, exactly what I meant",
    "No, not really", "Oh really?", "Is that right?", "Fascinating!", "Unbelievable!", "What a story!",
    "I'm sorry you're going through this", "I know how you feel", "That's a relief", "Well done, you!",
    "Bravo, keep going!", "You deserve it", "I believe in you", "Let's talk again soon",
    "It was lovely chatting with you", "Have a wonderful rest of your week", "Enjoy your evening!",
    "Goodnight and thanks", "Ok, I'll let you go", "Hmm, let me see", "Anything else?",
)  # fmt: skip

HELD_OUT_CHINESE = (
    "嗨，好久不见呀", "晚上好，今天过得好吗？", "很高兴又和你聊天", "谢谢你一直以来的支持", "真是太感谢了",
    "让你费心了", "不用客气，应该的", "好的，没问题", "嗯嗯，好的呀", "哦，这样啊", "你说得很有道理", "哇，好厉害！",
    "真替你高兴", "别着急，慢慢来", "祝你一切顺利", "愿你天天开心", "那我先走啦", "改天见", "不好意思，让你久等了",
    "有事再联系",
)  # fmt: skip

MORE_ENGLISH = (
    "Good evening, how's it going?", "yo what's up", "Hello again, nice to see you back",
    "Thanks a million, you're a lifesaver", "ty so much!!", "Appreciate it, that's really kind of you",
    "Many thanks for your patience with me", "Thank you, that was exactly what I needed", "thx, perfect",
    "Talk to you tomorrow", "Okay, I'm off, see ya", "Have a lovely weekend", "Goodnight, sleep well",
    "Take care of yourself", "Got it, makes sense", "Ah, I see what you mean now", "Right, right.",
    "Okay cool, that works for me", "Understood, will do", "Sure, go ahead", "Yep, sounds like a plan",
    "Hmm, let me think about that for a second", "Give me a moment please", "Hold on, one sec",
    "Well, you know how it is", "Let's see...", "So, where were we?", "You're so smart, seriously",
    "Wow, you explained that beautifully", "That's a brilliant answer", "You always know what to say",
    "You're the best assistant ever", "Oops, my bad", "Sorry about that, I didn't mean to be rude",
    "Apologies for the confusion earlier", "Sorry for bothering you again", "Good luck with everything",
    "Wishing you a wonderful year ahead", "lol that cracked me up", "No way, are you serious?",
    "Oh my god, that's hilarious", "🎉🎉❤️", "I've been looking forward to talking with you",
    "It's so good to chat again after all this time", "That really put a smile on my face",
    "You never fail to impress me", "I don't know what I'd do without you",
    "Honestly, couldn't have said it better myself", "Sorry for being such a pain", "Please forgive my ignorance",
    "No offense taken", "Ha, touché", "Right, that figures", "Well, that escalated quickly",
    "Whatever floats your boat", "Sweet, let's get cracking", "Alrighty then", "Ready when you are", "Ok shoot",
    "Go on, I'm listening", "Bear with me a sec", "Lemme think...", "Where should I begin?",
    "That's one way to put it", "If you say so", "I suppose you're right about that", "You make a good point",
    "Thanks for explaining it so clearly", "I'm so grateful you took the time", "What would I do without you?",
    "Much love to you all", "Cheers for that, really helpful stuff", "Hope you have a fabulous day",
    "May all your wishes come true", "Enjoy the rest of your evening!", "Time for me to go, bye!",
    "I'd better get going, talk soon", "Till next time", "Glad that's sorted", "Phew, what a relief", "OMG yesss",
    "Nooooo way!!", "You crack me up, haha", "It's no trouble, honestly", "Sorry, I got carried away there",
    "I beg your pardon?", "My apologies, I misspoke", "Aw shucks, you're making me blush", "You're a natural at this",
    "Spot on as always", "Not gonna lie, that's pretty impressive", "You've got a way with words", "Hey stranger!",
    "Look who's back", "How's life treating you?", "Good to hear your voice", "Hope I'm not disturbing you",
    "Do you have a minute?", "Just wanted to say hi", "Just checking in", "I was just saying hello",
    "Thanks for always being there", "Your help means the world to me", "Thank you from the bottom of my heart",
    "I'll be forever grateful", "You saved my life, thank you", "Couldn't have done it without you",
    "Don't mention it, happy to be of service", "That explains a lot", "Now it all makes sense",
    "Ah okay, that was my mistake", "Point noted", "I stand corrected", "As expected", "Sounds about right",
    "I'm with you on that one", "We're on the same page then", "Fine, you win", "I give up haha", "Eh, whatever",
    "Not sure what to say", "I'm at a loss for words", "Let me get this straight", "Long story short",
    "Anyway, moving on", "To be fair, you have a point", "I'm just messing with you", "Who would have thought!",
    "Don't be silly", "Oh stop it, you", "You flatter me", "Have a safe journey home", "Rest up and feel better soon",
    "Merry Christmas and a happy new year!", "All the best for the future", "It's been a pleasure",
    "Until we meet again", "That'll be all, thanks", "Off I go", "You too, have a good one",
    "Pretty please with a cherry on top", "Whoops, wrong chat",
)  # fmt: skip

MORE_CHINESE = (
    "嗨，又见面了", "晚上好，最近怎么样？", "在吗在吗", "哈喽，好久不见", "太感谢了，帮了大忙", "谢啦，辛苦你了",
    "多谢指点！", "真的很谢谢你的耐心", "不客气，应该的", "那我先走啦，回头聊", "拜拜，明天见", "晚安，好梦",
    "祝你周末愉快", "新年快乐，万事如意", "嗯嗯，明白了", "哦，原来是这样", "好的好的，没问题", "行，就这么办吧",
    "知道了，收到", "让我想想", "等一下哈", "怎么说呢……", "你真聪明，太厉害了", "这个回答太棒了，给你点赞",
    "抱歉抱歉，我没说清楚", "哈哈哈笑死我了", "真的假的？太夸张了吧", "👍👍😂", "忙什么呢", "今天天气真不错呀",
    "和你聊天真开心", "你怎么什么都知道", "真是长知识了", "我服了你了", "受教了", "学到了，谢谢", "那就拜托你啦",
    "麻烦你再说一遍", "我刚才没看懂", "你继续说，我听着呢", "哎，怎么会这样", "别逗我了", "开个玩笑而已",
    "你说的也有道理", "我也是这么想的", "话不能这么说", "希望一切都好", "中秋快乐，阖家团圆", "愿你每天都有好心情",
    "爱你哟", "比心", "那今天就聊到这儿吧", "我得走了，下次见", "时间不早了，晚安", "哈哈，被你发现了",
    "天哪，太不可思议了", "呜呜呜太感动了", "你是最棒的", "最近过得怎么样呀", "有人在吗", "打扰你一下可以吗",
    "今天也请多多关照", "你今天心情好吗", "有你真好", "谢谢你总是这么耐心", "辛苦你这么晚还帮我", "哪里的话",
    "小意思", "那真是太好了", "我完全同意你的看法", "原来是我搞错了", "你说啥就是啥", "行吧行吧", "无所谓啦",
    "我没什么问题了", "没什么别的事了", "容我想想", "等我一分钟", "我再想想看", "你太谦虚了", "别开玩笑了",
    "简直不敢相信", "好羡慕呀", "哇塞，好浪漫", "心疼你", "保重身体", "恭喜发财，红包拿来", "有缘再见",
)  # fmt: skip

#: Held out: never tune on it.
HELD_OUT_LATER_ENGLISH = (
    "Hi friend, how have you been lately?", "Good to be talking to you again", "Rise and shine!", "Howdy partner",
    "Hey, just dropping by to say hello", "Hello there, lovely day isn't it", "Thank you kindly for all of this",
    "That helped heaps, thanks", "Wow thanks, that was quick", "You have no idea how much this helps",
    "Bless you for putting up with me", "Cheers, you've been a great help tonight",
    "Alright, good night and sweet dreams", "I'm heading to bed, night night", "Gotta run, bye!", "See you in a bit",
    "It was great catching up, let's do it again", "Ok that's everything for today", "Yup, crystal clear",
    "Ah gotcha, thanks for clarifying", "Yeah I figured as much", "Okay, point taken",
    "Sure, whatever you think is best", "True that", "Hmm, tricky one", "Give me a minute to read this over",
    "Let me sleep on it", "Erm, where do I even start", "Well, well, well", "Okay, ready for the next one",
    "You really are something else", "Nobody explains things like you do", "That was a really thoughtful response",
    "Sorry if I sounded harsh", "Forgive me, I'm being silly", "Whoa, didn't see that coming", "That is too funny 😂",
    "Yikes, sounds painful", "Enjoy your day off!", "May the new year bring you joy",
)  # fmt: skip

#: Held out: never tune on it.
HELD_OUT_LATER_CHINESE = (
    "哟，你来啦", "大家晚上好呀", "新的一天，早安", "最近还顺利吗", "谢谢你帮我这么多", "你的建议对我很有用，谢谢",
    "真是麻烦你了，改天请你喝茶", "好的，我会记住的", "嗯，说得也是", "哦哦，懂了懂了", "没事，你慢慢说",
    "我先想一想再回复你", "这可难倒我了", "你懂得真多呀", "果然还是你厉害", "哎呀，是我不好", "对不起，我刚刚走神了",
    "先不聊啦，晚安", "祝你和家人中秋快乐", "我的天，这也太好笑了吧",
)  # fmt: skip

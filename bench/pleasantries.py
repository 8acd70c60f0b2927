"""Turns that say nothing worth a memory: 200 by which the extractor is measured; 180 in other wording, from which it learned something; and
60 that were written last, from which it learned nothing.
"""

from __future__ import annotations

__all__ = [
    "HELD_OUT_CHINESE",
    "HELD_OUT_ENGLISH",
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

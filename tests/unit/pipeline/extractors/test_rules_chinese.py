"""Chinese statements, questions and requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memline.contracts.turn import Message
from memline.pipeline.extractors.rules_chinese import is_chinese

Texts = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("我住在上海，喜欢吃火锅", ["用户住在上海", "用户喜欢吃火锅"]),
        ("我住在上海。", ["用户住在上海"]),
        ("我的狗叫波比", ["用户的狗叫波比"]),
        ("我对花生过敏。", ["用户对花生过敏"]),
        ("我们上周去了北京。", ["用户和同伴上周（2026-04-20当周）去了北京"]),
        ("我妈妈叫李梅。", ["用户的妈妈叫李梅"]),
        ("我在腾讯工作。", ["用户在腾讯工作"]),
        ("我的电话号码是13800138000", ["用户的电话号码是13800138000"]),
        ("我下周三要去东京出差", ["用户下周三（2026-05-06）要去东京出差"]),
        ("我不喜欢咖啡。我喜欢绿茶。", ["用户不喜欢咖啡", "用户喜欢绿茶"]),
        ("我自己做了一个书架", ["用户自己做了一个书架"]),
        ("老板给我升职了！", ["老板给用户升职了！"]),
        ("我今年35岁", ["用户今年（2026）35岁"]),
        ("我女儿5月3日结婚", ["用户的女儿5月3日结婚"]),
        ("航班号是CA1234", ["航班号是CA1234"]),
        ("他说「我爱我的工作」", ["他说「我爱我的工作」"]),
        ("我最喜欢的书是《我的前半生》", ["用户最喜欢的书是《我的前半生》"]),
        ("我在Google工作，住在Berlin", ["用户在Google工作", "用户住在Berlin"]),
        ("我不知道为什么他走了", ["用户不知道为什么他走了"]),
        ("你好，我是安娜", ["用户是安娜"]),
        ("谢谢！我下周搬家。", ["用户下周（2026-05-04当周）搬家"]),
        ("请记住我的门禁密码是4471。", ["用户的门禁密码是4471"]),
        ("我的自我评价很低", ["用户的自我评价很低"]),
        ("会议改到周四下午3点了", ["会议改到周四下午3点了"]),
        ("我买了一辆车。它是蓝色的。", ["用户买了一辆车。它是蓝色的"]),
        ("我对花生过敏，可以吃什么？", ["用户对花生过敏"]),
        ("帮我推荐一家京都的酒店，5月3号我和老婆安娜去旅行", ["5月3号用户和老婆安娜去旅行"]),
        ("因为我怀孕了，有什么不能吃？", ["用户怀孕了"]),
        ("能给我三个月大的小狗起个名字吗？", ["用户问：能给用户三个月大的小狗起个名字吗"]),
        ("我明天面试，应该穿什么？", ["用户明天（2026-05-02）面试"]),
        ("提醒我明天下午3点给妈妈打电话", ["用户问：提醒用户明天下午（2026-05-02）3点给妈妈打电话"]),
    ],
)
def test_a_chinese_statement_is_told_about_the_user(texts: Texts, said: str, kept: list[str]) -> None:
    result = [text.rstrip("？") for text in texts(said)]
    assert result == kept


@pytest.mark.parametrize(
    "said",
    [
        "你好",
        "您好！",
        "早上好",
        "谢谢你的帮助！",
        "好的，谢谢",
        "嗯嗯",
        "哈哈哈",
        "明白了",
        "太好了！",
        "再见",
        "辛苦了",
        "没问题",
        "在吗？",
        "最近怎么样？",
        "法国的首都是哪里？",
        "今天天气怎么样？",
        "什么是机器学习？",
        "你能帮我吗？",
        "帮我写一首诗",
        "请解释一下量子力学",
        "给我讲个笑话",
        "你会说英语吗",
        "现在几点了？",
        "为什么天是蓝的？",
        "怎么做蛋炒饭？",
        "推荐几本书",
        "你呢？",
        "翻译这句话",
        "这个多少钱？",
        "你叫什么名字？",
    ],
)
def test_chinese_pleasantries_and_bare_questions_are_dropped(texts: Texts, said: str) -> None:
    assert texts(said) == []


def test_a_chinese_message_is_told_about_its_named_speaker(texts: Texts) -> None:
    assert texts(Message("user", "我喜欢吃火锅", "小明")) == ["小明喜欢吃火锅"]


def test_chinese_of_the_assistant_is_told_about_the_assistant_and_the_user(texts: Texts) -> None:
    assert texts(Message("assistant", "我已为你预订5月3日的餐厅。祝你用餐愉快！")) == ["助手已为用户预订5月3日的餐厅"]


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        ("我住在上海", True),
        ("我在Google工作", True),
        ("I live in 上海", False),
        ("I live in Berlin", False),
        ("東京に住んでいます", False),
        ("She said 「你好」 to the whole class", False),
        ("", False),
    ],
)
def test_the_language_is_told_by_what_is_outside_quotes(text: str, chinese: bool) -> None:
    assert is_chinese(text) is chinese

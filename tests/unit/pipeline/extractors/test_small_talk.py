"""Small talk by its words, and what has the same words and tells something."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.pipeline.extractors.small_talk import is_small_talk
from memline.pipeline.extractors.small_talk_chinese import is_small_talk_chinese
from memline.pipeline.extractors.words_small_talk import KNOWN


@pytest.mark.parametrize(
    "said",
    [
        "You explain things so clearly", "Wow, what a clever answer", "I see exactly what you mean", "Let me think about that one",
        "I didn't mean to sound rude", "It means a lot to me", "I'm off then, talk soon", "I really have to go now", "You flatter me",
        "Wishing you a speedy recovery", "Sorry for the long pause", "Soooo good", "You're such a sweet soul", "That worked perfectly",
        "Thanks boss", "Stay safe and get well soon", "My apologies, I misread that",
    ],
)  # fmt: skip
def test_a_sentence_of_courtesies_is_small_talk(said: str) -> None:
    assert is_small_talk(said)


@pytest.mark.parametrize(
    "said",
    [
        "I talk in my sleep", "I can't hear well", "I see badly", "I forget a lot", "I believe in god",
        "I swear a lot", "I'm sick", "I want to be a teacher", "My friend is a teacher", "Busy at work",
        "Never been there", "Not recently", "I'm in trouble at work", "Sorry, I work late", "I love Grace", "Call me boss",
        "From now on be kind", "The day after tomorrow", "Always answer in a friendly tone", "Please keep it friendly",
        "Don't be so polite", "Let's meet tomorrow", "You should be more careful with the oven",
        "You have a wonderful kitchen", "Wishing you luck with your exam", "I have 2 ideas", "You're really good at chess",
    ],
)  # fmt: skip
def test_the_same_words_may_tell_of_a_life(said: str) -> None:
    assert not is_small_talk(said)


@pytest.mark.parametrize(
    "said",
    [
        "你解释得真清楚", "太震撼了", "让我再想想", "我没听懂你的意思", "我先走了，改天再聊", "谢谢你陪我说话",
        "祝你前程似锦", "中秋快乐，阖家团圆", "你可真幽默", "对不起，我说错了", "ok啦，没问题", "我也是这么想的",
    ],
)  # fmt: skip
def test_a_chinese_sentence_of_courtesies_is_small_talk(said: str) -> None:
    assert is_small_talk_chinese(said)


@pytest.mark.parametrize(
    "said",
    [
        "我睡不好", "我工作很忙", "谢谢，工作很忙", "我是老师", "我朋友是老师", "我不喜欢人多", "我明天很忙",
        "最近身体不太健康", "祝你在上海一切顺利", "我有3个想法",
        "他说「好的」", "我听不见", "我爱说话", "我觉得不舒服", "不太开心", "明天下午", "你好朋友结婚了",
    ],
)  # fmt: skip
def test_the_same_chinese_words_may_tell_of_a_life(said: str) -> None:
    assert not is_small_talk_chinese(said)


@given(st.lists(st.sampled_from(sorted(KNOWN)), max_size=20), st.sampled_from(["Berlin", "Ana", "42nd"]))
def test_a_name_or_a_number_inside_is_no_small_talk(some: list[str], name: str) -> None:
    assert not is_small_talk(" ".join(["so", *some, name, *some]))


@given(st.text(max_size=60))
def test_any_text_is_judged(text: str) -> None:
    assert is_small_talk(text) in (True, False)
    assert is_small_talk_chinese(text) in (True, False)

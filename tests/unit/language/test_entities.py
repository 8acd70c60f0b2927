"""Entities: what a text names, English and Chinese, with the model and without."""

from __future__ import annotations

import pytest

from memline.contracts.fact import EntityMention
from memline.language.analysis import TextAnalyser
from memline.language.entities import MAX_ENTITIES, merge_entities

WITH_MODEL = TextAnalyser(True)
WITHOUT_MODEL = TextAnalyser(False)


def entities(text: str, analyser: TextAnalyser = WITH_MODEL) -> dict[str, str]:
    return {mention.name: mention.type for mention in analyser.analyse([text])[0].entities}


#: Found with the model and by rules alone. A name that is not listed must not be there.
EVERYWHERE: list[tuple[str, dict[str, str]]] = [
    (
        "User moved from Berlin to Lisbon in March 2024 and works for Contoso.",
        {"Berlin": "PROPER", "Lisbon": "PROPER", "Contoso": "PROPER"},
    ),
    (
        "Marcus was promoted to Senior Engineer at Shopify around August 12, 2025",
        {"Marcus": "PROPER", "Senior Engineer": "TOPIC", "Shopify": "PROPER"},
    ),
    (
        "User bought a ThinkPad X1 Carbon Gen 12 with Ann Lee at OpenAI.",
        {"ThinkPad X1 Carbon Gen 12": "PROPER", "Ann Lee": "PROPER", "OpenAI": "PROPER"},
    ),
    (
        "User enjoys watching 'The Last Dance' and \"Drive to Survive\" on Netflix",
        {"The Last Dance": "QUOTED", "Drive to Survive": "QUOTED", "Netflix": "PROPER"},
    ),
    (
        "write to ann.lee@example.com about INC-48213 and numpy.linalg.svd",
        {"ann.lee@example.com": "IDENTIFIER", "INC-48213": "IDENTIFIER", "numpy.linalg.svd": "IDENTIFIER"},
    ),
    (
        "see https://example.org/a?b=1, or ring +1-415-555-0100",
        {"https://example.org/a?b=1": "IDENTIFIER", "+1-415-555-0100": "IDENTIFIER"},
    ),
    ("User's sister Maria Gonzalez lives in New York City.", {"Maria Gonzalez": "PROPER", "New York City": "PROPER"}),
    ("The meeting with Project Orion is on 2024-05-06 at Building 7.", {"Project Orion": "PROPER", "Building 7": "PROPER"}),
    ("User ran the Boston Marathon next to the University of Lisbon.", {"Boston Marathon": "PROPER", "University of Lisbon": "PROPER"}),
    (
        "User has an iPhone 15 Pro Max and a Galaxy S24 Ultra, and a PlayStation 5.",
        {"iPhone 15 Pro Max": "PROPER", "Galaxy S24 Ultra": "PROPER", "PlayStation 5": "PROPER"},
    ),
    ("User is using Python 3.11 on Windows 11.", {"Python 3.11": "PROPER", "Windows 11": "PROPER"}),
    (
        "Alice and Bob are visiting Paris with Jean-Luc Picard.",
        {"Alice": "PROPER", "Bob": "PROPER", "Paris": "PROPER", "Jean-Luc Picard": "PROPER"},
    ),
    ("User took a new job as Product Manager at Acme Corp in May.", {"Product Manager": "TOPIC", "Acme Corp": "PROPER"}),
    ("the Lord of the Rings is on “Channel Nine”", {"Lord of the Rings": "PROPER", "Channel Nine": "QUOTED"}),
    ("The Beatles and AT&T signed with GPT-4 in Q3.", {"Beatles": "PROPER", "AT&T": "IDENTIFIER", "GPT-4": "IDENTIFIER"}),
    ("MY FLIGHT IS ON MONDAY AND I AM SO HAPPY", {}),
    ('User said "I love Paris so much."', {"Paris": "PROPER"}),
    ("Assistant told the user that it is Monday, 12 August, 10:30, 3.5% of $1,200 for 30-minute talks", {}),
    ("alice works at contoso", {}),
    ("我的 ThinkPad X1 Carbon 坏了", {"ThinkPad X1 Carbon": "PROPER"}),
    ("我买了iPhone 15 Pro，邮箱是li.lei@example.cn", {"iPhone 15 Pro": "PROPER", "li.lei@example.cn": "IDENTIFIER"}),
    (
        "我叫李雷，在阿里巴巴工作，住在杭州，手机 13800138000",
        {"李雷": "PROPER", "阿里巴巴": "PROPER", "杭州": "PROPER", "13800138000": "IDENTIFIER"},
    ),
    (
        "王小明的妹妹王芳在北京大学读书，喜欢《三体》和「流浪地球」",
        {"王小明": "PROPER", "王芳": "PROPER", "北京大学": "PROPER", "三体": "QUOTED", "流浪地球": "QUOTED"},
    ),
    ("张伟下周一去深圳腾讯总部开会，用户对花生过敏", {"张伟": "PROPER", "深圳": "PROPER", "腾讯": "PROPER"}),
    ("欧阳娜娜在上海交通大学演出", {"欧阳娜娜": "PROPER", "上海交通大学": "PROPER"}),
    ("用户喜欢吃火锅，昨天睡得不好", {}),
    ("她说“今天很累，想早点睡。”", {}),
]


@pytest.mark.parametrize("analyser", [WITH_MODEL, WITHOUT_MODEL], ids=["model", "rules"])
@pytest.mark.parametrize(("text", "wanted"), EVERYWHERE, ids=[text[:24] for text, _ in EVERYWHERE])
def test_a_sentence_names_its_entities_and_nothing_else(text: str, wanted: dict[str, str], analyser: TextAnalyser) -> None:
    assert entities(text, analyser) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("User prefers oat milk lattes and is learning machine learning.", {"oat milk lattes": "TOPIC", "machine learning": "TOPIC"}),
        ("Maria's guitar teacher is called Dr. Smith", {"Maria": "PROPER", "guitar teacher": "TOPIC", "Dr. Smith": "PROPER"}),
        ("User loves Italian food and speaks Spanish.", {"Italian food": "TOPIC", "Spanish": "PROPER"}),
        ("Hey Caroline! Thanks, that sounds great. Wow, Melanie loves pottery.", {"Caroline": "PROPER", "Melanie": "PROPER"}),
        ("User had a great time and a good idea last week.", {}),
    ],
)
def test_the_model_adds_topics_and_sees_names_at_the_start_of_a_sentence(text: str, wanted: dict[str, str]) -> None:
    assert entities(text) == wanted


@pytest.mark.parametrize("text", ["Planning a trip.", "Coffee.", "Yesterday it rained. Tomorrow too."])
def test_without_the_model_a_single_word_at_the_start_of_a_sentence_is_no_name(text: str) -> None:
    assert entities(text, WITHOUT_MODEL) == {}


@pytest.mark.parametrize("analyser", [WITH_MODEL, WITHOUT_MODEL], ids=["model", "rules"])
def test_names_of_one_or_two_latin_letters_and_over_a_hundred_characters_are_left_out(analyser: TextAnalyser) -> None:
    found = entities("User met Jo in LA near “" + "Aa " * 40 + "”", analyser)
    assert all(2 < len(name) <= 100 for name in found)


def test_a_name_written_twice_is_one_entity_as_first_written() -> None:
    assert entities("User likes Netflix, and NETFLIX pays the user; netflix is fine.") == {"Netflix": "PROPER"}


def test_one_name_under_two_types_keeps_the_surer_type_and_the_first_spelling() -> None:
    merged = merge_entities([EntityMention("Machine Learning", "TOPIC"), EntityMention("machine  learning", "QUOTED")])
    assert merged == (EntityMention("Machine Learning", "QUOTED"),)


def test_a_text_has_a_bounded_number_of_entities() -> None:
    assert len(merge_entities(EntityMention(f"ID-{number:05}", "IDENTIFIER") for number in range(2000))) == MAX_ENTITIES


def test_entities_come_in_the_order_of_the_text() -> None:
    names = [mention.name for mention in WITH_MODEL.analyse(["In Berlin INC-48213 hit Ann Lee and 李雷."])[0].entities]
    assert names == ["Berlin", "INC-48213", "Ann Lee", "李雷"]


def test_a_name_keeps_its_punctuation_and_loses_only_the_width_of_its_letters() -> None:
    assert entities("在看《你好，李焕英》和ＴｈｉｎｋＰａｄ，单号ＩＮＣ－４８２１３") == {
        "你好，李焕英": "QUOTED",
        "ThinkPad": "PROPER",
        "INC-48213": "IDENTIFIER",
    }

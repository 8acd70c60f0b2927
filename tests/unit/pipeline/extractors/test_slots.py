"""Slots: what fills one, and what must not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.pipeline.extractors.slots import slot_of


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("User lives in Berlin", "user|live"),
        ("User lives in Berlin now.", "user|live"),
        ("User moved to Munich", "user|live"),
        ("User has moved to Munich", "user|live"),
        ("User relocated to New York last month", "user|live"),
        ("User moved from Rome to Berlin", "user|live"),
        ("Ana Lee lives in Rio de Janeiro", "ana lee|live"),
        ("User lives in Germany", "user|live country"),
        ("User works at Contoso", "user|work"),
        ("User works for Acme Inc. as a nurse", "user|work"),
        ("User started working at Fabrikam", "user|work"),
        ("User joined Fabrikam as a data engineer", "user|work"),
        ("User's locker code is 4471", "user|locker code"),
        ("User's locker code is 9038 now", "user|locker code"),
        ("User's shoe size is 38 now", "user|shoe size"),
        ("User's favourite coffee is a flat white these days", "user|favourite coffee"),
        ("User's door code is now 9920", "user|door code"),
        ('User\'s wifi password is "blue sky 42"', "user|wifi password"),
        ("User's Wi-Fi password has changed to sunFlower9", "user|wifi password"),
        ("User's email is a.b@c.org", "user|email"),
        ("User's work e-mail address is a@c.org", "user|work email"),
        ("User's phone number is +49 30 1234567", "user|phone"),
        ("User's PIN is 0042", "user|pin"),
        ("User's flight number is KL 641", "user|flight number"),
        ("User's birthday is on May 3rd", "user|birthday"),
        ("User's name is Ana", "user|name"),
        ("User's favorite color is teal", "user|favourite colour"),
        ('User\'s favourite film is "No Country for Old Men"', "user|favourite film"),
        ("User's wife's phone number is 555-1234", "user|wife's phone"),
        ("User's address is 12 Main Street, Bonn", "user|address"),
        ("Melanie's favourite book is Dune", "melanie|favourite book"),
        ("User's dentist appointment is on Tuesday", "user|dentist appointment day"),
        ("User's dentist appointment was moved to Thursday", "user|dentist appointment day"),
        ("User's meeting with Ana is at 4 pm", "user|meeting with ana time"),
        ("The studio door code is 7741", "the|studio door code"),
        ("The office wifi password is now Tree-99", "the|office wifi password"),
        ("User is based in Lisbon", "user|live"),
        ("用户住在上海", "user|live"),
        ("用户现在住在北京", "user|live"),
        ("用户搬到了杭州", "user|live"),
        ("用户搬到深圳了", "user|live"),
        ("用户在腾讯工作", "user|work"),
        ("用户的电话号码是13800138000", "user|phone"),
        ("用户的邮箱是a@b.cn", "user|email"),
        ("用户最喜欢的颜色是蓝色", "user|最喜欢的颜色"),
        ("用户的门禁密码是4471", "user|门禁密码"),
        ("王小明住在成都", "王小明|live"),
        ("用户的生日是5月3日", "user|birthday"),
        ("用户的名字叫安娜", "user|name"),
    ],
)
def test_a_plain_statement_of_a_single_value_fills_a_slot(text: str, slot: str) -> None:
    assert slot_of(text) == slot


@pytest.mark.parametrize(
    "text",
    [
        "User is moving to Berlin",
        "User wants to move to Berlin",
        "User used to live in Rome",
        "User does not live in Berlin",
        "User would live in Rome",
        "User lives in a small flat",
        "User lives in Berlin with Ana",
        "User will move to Berlin",
        "User lived in Rome",
        "User moved to Neovim",
        "User moved to PostgreSQL",
        "User moved to AWS",
        "User moved to Python from Java",
        "User moved to Berlin in 2010",
        "User works on Contoso",
        "User works in Berlin",
        "User works at home",
        "User works at the hospital",
        "User works from home",
        "User also works at Contoso",
        "User works at Contoso part-time",
        "User joined Facebook",
        "User joined a gym",
        "User has a dog",
        "User likes tea",
        "User's dog is Poppy",
        "User's dog's name is Rex",
        "User's wife lives in Rome",
        "User's brother works at Siemens",
        "User's PIN is 4 digits long",
        "User's password is strong",
        "User's door code is not 4471",
        "User's old door code is 4471",
        "User's second phone number is 555",
        "User's order number is 12345",
        "User's verification code is 998877",
        "User's favourite part of the trip is the sea",
        "User's favourite colours are red and blue",
        "User's favourite thing is sleeping",
        "User's email is broken",
        "User's birthday is tomorrow",
        "User's birthday is in May",
        "User's name is on the list",
        "User's name is hard to spell",
        "Everyone lives in Berlin",
        "She lives in Berlin",
        "If User lives in Berlin",
        "User thinks Ana lives in Berlin",
        "User said Ana works at Contoso",
        "User lives in Berlin or Bonn",
        "User's meeting is at 3 pm",
        "User's phone is broken",
        "User's phone is 3 years old",
        "User's age is 34",
        "User's error code is 500",
        "User's discount code is SAVE20",
        "User's locker code is 4471 or 4472",
        "User's locker code is gone now",
        "User's locker code is not 4471 now",
        "User lives in Berlin. User works at Contoso",
        "User asks: does Ana live in Berlin?",
        "User's favourite colour is no longer teal",
        "User's code is 4471",
        "User's area code is 030",
        "The door code is 4471",
        "用户以前住在上海",
        "用户不住在上海",
        "用户想搬到北京",
        "用户打算搬到北京",
        "用户住在海边的房子",
        "用户住在上海的时候",
        "用户在上海工作",
        "用户喜欢火锅",
        "用户的妈妈住在杭州",
        "一直住在上海",
        "他住在上海",
        "用户最喜欢的事是睡觉",
        "用户的验证码是998877",
        "用户如果住在上海",
        "用户曾住在上海",
        "用户在一家公司工作",
        "用户的旧密码是1234",
        "用户的电话坏了",
        "User's flight number is KL641 and User's seat is 12A",
        "User lives in May",
        "User moved to Friday",
        "Most people live in Berlin",
        "User nearly moved to Berlin",
        "User just started at Google",
        "User started at Monday",
        "User's son is 12",
        "User's exam is on Monday",
        "User's room is 12",
        "User's combination is 12-34-56",
        "User's favourite restaurant in Rome is Roma",
        "User's favourite song is Yesterday and Let It Be",
    ],
)
def test_anything_else_has_no_slot(text: str) -> None:
    assert slot_of(text) is None


def test_spellings_of_one_question_share_a_slot() -> None:
    assert slot_of("User's favorite color is teal") == slot_of("User's favourite colour is red.")
    assert slot_of("User's e-mail address is a@b.org") == slot_of("User's email is c@d.org") == slot_of("用户的邮箱是e@f.cn")
    assert slot_of("User's new door code is 1234") == slot_of("User's door code has been changed to 9920")
    assert slot_of("User lives in Bonn") == slot_of("User moved to Oslo!") == slot_of("用户搬到了上海。")


def test_a_country_and_a_city_do_not_close_each_other() -> None:
    assert slot_of("User lives in Germany") != slot_of("User lives in Bonn")


def test_subjects_do_not_share_slots() -> None:
    assert slot_of("Ana lives in Bonn") != slot_of("User lives in Bonn")


@given(st.text(max_size=400))
def test_any_text_may_be_asked_for_its_slot(text: str) -> None:
    slot = slot_of(text)
    assert slot is None or "|" in slot


@given(
    st.sampled_from(["not", "never", "no longer", "maybe", "probably", "used to", "might", "would"]),
    st.sampled_from(["lives in", "moved to", "works at"]),
)
def test_doubt_before_the_verb_takes_the_slot_away(doubt: str, verb: str) -> None:
    assert slot_of(f"User {doubt} {verb} Berlin") is None

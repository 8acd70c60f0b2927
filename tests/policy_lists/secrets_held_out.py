"""50 texts with a secret, written last: the finders learned nothing from them."""

from __future__ import annotations

from tests.policy_lists.made import alnum, b64, card, hexa, join, jwt, pem, upper, url64

__all__ = ["SECRETS"]

A, W, P, C = "api_key", "password", "private_key", "card"

SECRETS: list[tuple[str, str, str]] = [
    (A, "Just so you have it, my OpenAI API key: {}. Don't print it again.", join("sk", "-proj-", url64("z1", 156))),
    (A, "claude code says invalid key, I gave it {}", join("sk", "-ant-api03-", url64("z2", 95))),
    (A, "aws configure\nAWS Access Key ID [None]: {}", join("AK", "IA", upper("z3", 16))),
    (A, "AWS Secret Access Key [None]: {}", b64("z4", 30)),
    (A, "gcloud: using token {}", join("ya", "29.a0", url64("z5", 120))),
    (A, "conn = 'DefaultEndpointsProtocol=https;AccountName=a;AccountKey={}'", b64("z6", 64)),
    (A, "git remote set-url origin https://kim:{}@github.com/kim/x.git", join("gh", "p_", alnum("z7", 36))),
    (A, "CI_JOB_TOKEN: {}", join("gl", "cbt-", "64_", alnum("z8", 20))),
    (A, "slack says xoxb is {}", join("xo", "xb-", "222222222222-", alnum("z9", 24))),
    (A, "POST /v1/charges with {} as user", join("sk", "_live_", alnum("z10", 99))),
    (A, "Twilio: sid is public, the auth token = {}", hexa("z11", 32)),
    (A, "My SendGrid key {}", join("S", "G.", url64("z12", 22), ".", url64("z13", 43))),
    (A, "~/.npmrc has {}", join("np", "m_", alnum("z14", 36))),
    (A, "~/.pypirc: password = {}", join("py", "pi-AgEIcHlwaS5vcmc", url64("z15", 120))),
    (A, "from huggingface_hub import login; login('{}')", join("h", "f_", alnum("z16", 34))),
    (A, "decode this for me: {}", jwt("z17")),
    (A, "headers: authorization: bearer {}", alnum("z18", 40)),
    (A, "the key I got by mail: {}", alnum("z19", 32)),
    (A, "tmdb api key is {}", hexa("z20", 32)),
    (A, "finnhub token={}", alnum("z21", 40)),
    (A, "export LANGFUSE_SECRET_KEY={}", join("sk", "-lf-", hexa("z22", 8), "-aaaa-4bbb-8ccc-", hexa("z23", 12))),
    (A, "WANDB_API_KEY={}", hexa("z24", 40)),
    (A, "the client secret we got from Auth0 is {}", url64("z25", 64)),
    (W, "Please note: password for the office printer is {}", "Pr1nter-99"),
    (W, "My new iCloud password is {} since Monday.", "Ocean#Breeze7"),
    (W, "wifi password {}", "cozyhome42"),
    (W, "WLAN: Fritz, Passwort: {}", "sommerregen"),
    (W, "the gate code and the password are the same, the password is {}", "olive-tree-5"),
    (W, "Hulu pass is {}", "hulugirl88"),
    (W, "email: kim@example.com\npass: {}", "starfish12"),
    (W, "Can you store my bank password? It's {}", "Mon3yTree!"),
    (W, "credentials for staging: admin / {}", "stag1ng-pw"),
    (W, "my old password ({}) was leaked", "iloveyou2"),
    (W, "psql postgresql://kim:{}@db.example.com/shop", "kimpw77"),
    (W, "spring:\n  datasource:\n    username: sa\n    password: {}", "S4-secret"),
    (W, "<password>{}</password>", "xmlpass1"),
    (W, "PASSWORD={} ./run.sh", "runpass_1"),
    (W, 'password="{}"', "qazwsx"),
    (W, "密码是 {} ，记一下", "Wang1990!"),
    (W, "支付宝密码：{}", "zfb778899"),
    (W, "пароль {}", "koshka2011"),
    (W, "mon mot de passe est {}", "chaton2015"),
    (P, "my key\n{}", pem("OPENSSH", "z30", 9)),
    (P, "{}\nand its certificate", pem("", "z31", 14)),
    (C, "save my card: {}, exp 01/29", card("4", 16, "z40", 4, 4, 4, 4)),
    (C, "mastercard ending 4444 is {}", card("53", 16, "z41")),
    (C, "use amex {} cid 1234", card("34", 15, "z42", 4, 6, 5)),
    (C, "my Visa card number's {}", card("4", 16, "z43", 4, 4, 4, 4)),
    (C, "工商银行卡 {}", card("6222", 19, "z44")),
    (C, "payment_method={}", card("4", 16, "z45")),
]

"""What passwords are called, and words that say something about one."""

from __future__ import annotations

__all__ = ["ABOUT", "HINTS", "NAMES", "STARTS", "WHO"]

#: What a password is called, in lower case. With "!": only as a word of its own.
_CALLED = (
    "password", "passwd", "passwort", "passphrase", "passcode", "pass phrase", "pwd!", "pw!", "pass!", "psw!", "psk!", "kennwort",
    "contraseña", "mot de passe", "senha", "wachtwoord", "hasło", "parola", "şifre", "lösenord", "adgangskode", "salasana", "heslo",
    "пароль", "пароля", "паролем", "密码", "密碼", "口令", "パスワード", "暗証番号", "비밀번호", "암호", "kata sandi", "mật khẩu", "รหัสผ่าน",
    "पासवर्ड", "identified by", "كلمة المرور", "סיסמה", "pin!", "pin code!", "pin-code!",
)  # fmt: skip
#: Each with whether it has to be a word of its own.
NAMES = tuple((name.rstrip("!"), name.endswith("!")) for name in _CALLED)
#: Without one of these there is no name in a text.
HINTS = tuple({name[:4] for name, _ in NAMES})

#: Words that say something about a password and are none.
ABOUT = frozenset(
    """a an the my your our their his her its this that these those it they you we i not no never always too very so really quite only also
    still now again already being been set reset changed updated sent stored saved kept hashed encrypted salted protected hidden shown
    masked visible required needed mandatory optional missing empty blank null none unknown invalid valid wrong incorrect correct right
    memorable readable unpredictable
    weak strong stronger safe secure insecure secret simple complex easy hard difficult long short good bad bad. better best same different
    similar unique new old current temporary permanent expired expiring case sensitive case-sensitive written what which who where when why
    how in on at by for from with without under inside near there here about as if or and but because since until after before something
    anything nothing everything forgotten lost leaked compromised stolen exposed known shared managed generated random rotated due
    working broken failing rejected accepted refused denied locked disabled enabled supported ignored useless important private
    one two three four five six eight ten twelve at-least minimum maximum must should can may will cannot can't won't don't isn't
    reset. change update use using get log login access open unlock enter type remember confirm verify recover protect avoid prevent
    ask check choose create pick make keep store share send see find show hide forget manager managers policy field fields prompt box page
    screen link email mail form rules strength length history hint hints hash hashes expiry string int str text varchar char bool boolean
    integer number optional[str] var let const nein nicht falsch richtig vergessen incorrecta correcta olvidada faux oublié errada nova
    неверный неправильный слабый сложный забыт нужен обязателен my-password password passwd pass pwd user username root@localhost
    ok okay fine yes enough pretty kind sort based likely probably maybe perhaps going supposed able up down out off over per via like
    sms totp mfa otp bcrypt argon2 scrypt pbkdf2 md5 sha1 sha256 sha-256 cleartext plaintext utf-8""".split()
)
STARTS = tuple("错不什多被很太需否谁必空忘要正有没用我你他这")

#: What stands beside a password: whose it is.
WHO = ("credential", "creds", "login", "log in", "log-in", "sign in", "user", "account", "логин", "用户名", "账号", "帐号")

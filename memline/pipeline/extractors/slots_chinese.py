"""Slots of Chinese facts: where somebody lives or works, and labelled values; as strict as the English ones."""

from __future__ import annotations

import re

from memline.pipeline.extractors.word_list import words

__all__ = ["slot_of_chinese"]

_SURNAMES = (
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭罗梁宋郑谢韩唐冯董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏钟汪田任姜范方"
    "石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段"
)
_SUBJECT = rf"(?P<subject>用户|[{_SURNAMES}][一-龥]{{1,2}}|[A-Z][A-Za-z'-]{{1,30}})"
_NOW = r"(?:现在|目前|如今|已经|刚刚?|最近)*"
_PLACE = r"(?P<place>[一-龥]{2,10}|[A-Z][A-Za-z .'-]{1,40})"

_LIVES = re.compile(rf"{_SUBJECT}{_NOW}(?:居?住在|定居在){_PLACE}")
_MOVED = re.compile(rf"{_SUBJECT}{_NOW}(?:从[一-龥A-Za-z ]{{2,20}})?搬[到去]了?{_PLACE}")
_WORKS = re.compile(
    rf"{_SUBJECT}{_NOW}(?:(?:在|就职于|任职于)(?P<at>[一-龥A-Za-z0-9·&. ]{{2,30}}?)(?:工作|上班|任职)|(?:入职|跳槽到|"
    rf"加入)了?(?P<joined>[一-龥A-Za-z0-9·&. ]{{2,30}}))"
)
_ORGANISATION = re.compile(
    r"(?:公司|集团|银行|医院|大学|中学|小学|学院|研究所|研究院|事务所|科技|出版社|报社|电视台|酒店|工厂)$|"
    r"^(?:腾讯|阿里巴巴|阿里|百度|字节跳动|字节|华为|小米|京东|美团|网易|滴滴|拼多多|微软|谷歌|苹果|亚马逊|特斯拉|比亚迪|联想|快手|携程|新浪|搜狐|大疆)$"
)
_LABEL = re.compile(
    rf"{_SUBJECT}的(?P<label>[一-龥A-Za-z]{{1,16}}?)(?:现在|已经|目前)?(?:是|为|叫|改成了?|改为了?|换成了?|变成了?|[:：])\s*(?P<value>.{{1,120}})"
)
_FAVOURITE = re.compile(
    rf"{_SUBJECT}(?:现在)?最(?:喜欢|爱)的(?P<what>[一-龥]{{1,8}}?)是(?P<value>[^的]{{1,30}}|[《「“][^》」”]{{1,40}}[》」”])"
)
_DOUBT = re.compile(
    r"不|没|别|曾|以前|之前|过去|原来|从前|小时候|如果|要是|假如|打算|计划|准备|想|希望|可能|也许|大概|或者|还是|应该|将|会|要|考虑|即将|快要|暂时|临时|据说|听说|说|觉得|"
    r"也|又|兼职|吗|？|\?|时候|过|的时|除了|但|那时|当时|一起|旧|老|上一个|另一个|第[一二三两]|前一个|备用"
)
_CODES = re.compile(
    r"(?:门禁|储物柜|柜子|大门|房门|门锁|wifi|WiFi|Wi-Fi|无线|无线网络|网络|银行卡|手机|电脑|保险箱|车库|单元门|家门)?(?:密码|密码锁密码|门禁码|PIN码|PIN)|门禁码|邮编|车牌号?|航班号|护照号码?|工号|学号|"
    r"会员号|房间号"
)
_KINDS = {
    "电话": "phone",
    "电话号码": "phone",
    "手机号": "phone",
    "手机号码": "phone",
    "手机": "phone",
    "联系电话": "phone",
    "邮箱": "email",
    "邮箱地址": "email",
    "电子邮箱": "email",
    "电子邮件": "email",
    "邮件地址": "email",
    "生日": "birthday",
    "名字": "name",
    "姓名": "name",
    "地址": "address",
    "家庭住址": "home address",
    "住址": "home address",
}
_VALUES = {
    "phone": re.compile(r"[+\d][\d \-()]{5,20}"),
    "email": re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{3,80}"),
    "birthday": re.compile(r"(?:\d{4}年)?(?:农历)?[\d一二三四五六七八九十]{1,3}月[\d一二三四五六七八九十]{1,3}[日号]?|\d{4}-\d\d?-\d\d?"),
    "name": re.compile(r"[一-龥·]{2,8}|[A-Z][A-Za-z .'-]{1,40}"),
    "address": re.compile(r"(?=.*[\d一二三四五六七八九十]).{5,80}"),
    "home address": re.compile(r"(?=.*[\d一二三四五六七八九十]).{5,80}"),
}
_CODE_VALUE = re.compile(r"[\w#*@!.\-]*[\dA-Z][\w#*@!.\-]*|[「“\"'].{1,40}[」”\"']", re.ASCII)
_COUNTRY = words(
    "中国 美国 英国 法国 德国 日本 韩国 加拿大 澳大利亚 新西兰 新加坡 意大利 西班牙 俄罗斯 印度 泰国 马来西亚 欧洲 亚洲 国外 海外"
)
_NO_PLACE = re.compile(r"[的楼层间]|[里上下边旁近]$|一起|学校|宿舍|公司|家|酒店|宾馆|这|那|哪|附近|公寓|房子|新|城市|农村|乡下|租")


def slot_of_chinese(text: str) -> str | None:
    """The slot of a Chinese fact, or None."""
    text = text.strip().rstrip("。.！!")
    text = text.removesuffix("了") if len(text) > 4 else text
    if len(text) > 160 or re.search(r"[，,；;。！？\n]", text) or not re.search(r"[一-龥]", text):
        return None
    found = _LIVES.fullmatch(text) or _MOVED.fullmatch(text)
    if found is not None:
        place = found.group("place")
        if _DOUBT.search(text) or _NO_PLACE.search(place):
            return None
        return _named(found, "live country" if place in _COUNTRY else "live")
    found = _WORKS.fullmatch(text)
    if found is not None:
        at = (found.group("at") or found.group("joined")).strip()
        return (
            _named(found, "work")
            if not _DOUBT.search(text) and _ORGANISATION.search(at) and not re.search(r"一家|[一两]个|这|那|的", at)
            else None
        )
    found = _FAVOURITE.fullmatch(text)
    if found is not None:
        what = found.group("what")
        if what in ("事", "事情", "东西", "人", "地方", "时候", "部分", "一个") or _DOUBT.search(what + found.group("value")):
            return None
        return _named(found, f"最喜欢的{what}")
    found = _LABEL.fullmatch(text)
    return _of_label(found) if found is not None else None


def _of_label(found: re.Match[str]) -> str | None:
    label, value = re.sub(r"^(?:新的?|现在的?)", "", found.group("label")), found.group("value").strip()
    if _DOUBT.search(label):
        return None
    kind = _KINDS.get(label)
    if kind is not None:
        return _named(found, kind) if _VALUES[kind].fullmatch(value) and not re.search(r"不是|没有|或者|以前", value) else None
    if _CODES.fullmatch(label) and _CODE_VALUE.fullmatch(value) and len(value) >= 3:
        return _named(found, label.lower())
    return None


def _named(found: re.Match[str], question: str) -> str:
    subject = found.group("subject")
    return f"{'user' if subject == '用户' else subject.lower()}|{question}"

"""Chinese words and names by rjieba's dictionary.

Its default instance is used: a second one would cost 24 MiB. Whoever adds words to it changes the terms of texts analysed from then on.
"""

from __future__ import annotations

from collections.abc import Iterator

from memline.language.stop_words import CHINESE_FUNCTION
from memline.language.words import CJK_RUN, HAN_RUN

__all__ = ["cjk_terms", "han_names"]

_SURNAMES = frozenset(
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪范金"
    "石廖贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤温康施文牛樊葛邢安齐易乔伍庞颜倪庄聂章鲁"
    "岳翟殷詹申欧耿关兰焦俞左柳甘祝包宁尚符舒阮柯纪梅童凌毕单裴霍涂成苗谷盛曲翁冉骆蓝路游辛靳管柴蒙鲍华喻祁蒲房滕屈饶解牟艾尤"
    "阳时穆农司卓古吉缪简车项连芦麦褚娄窦戚岑景党宫费卜冷晏席卫米柏宗瞿桂全佟应臧闵苟邬边卞姬师和仇栾隋商刁沙荣巫寇桑郎甄丛仲"
    "虞敖巩明佘池查麻苑迟邝"
)
_DOUBLE_SURNAMES = frozenset(
    """
    欧阳 司马 上官 诸葛 东方 皇甫 尉迟 公孙 慕容 令狐 夏侯 司徒 长孙 宇文 端木 南宫
    """.split()
)
#: What makes an organisation or a place of the name before it.
_SUFFIXES = frozenset(
    """
    大学 学院 中学 小学 附小 附中 幼儿园 公司 集团 银行 医院 酒店 饭店 餐厅 机场 火车站 车站 公园 广场 路
    街 大街 区 市 省 县 镇 村 站 湖 山 河 岛 图书馆 博物馆 体育馆 研究所 研究院 出版社 俱乐部
    """.split()
)
#: Words that the dictionary or its guess takes for names.
_NOT_NAMES = frozenset(
    """
    用户 助手 过敏 高兴 明白 安静 平安 健康 方便 成功 文明 和平 时刻 温和 温馨 安心 安排 应该 全部 连续
    向往 尚未 单独 明天 明年 成为 成长 费用 管理 高级 华丽 金额 白天 时候 时间 司机 马上 万一 和谐 商量
    解决 古老 吉利 简单 麻烦 包裹 师傅 祝福 游戏 冷静 高中 于是 关于 由于 黄油 白酒 马路 牛奶 牛肉 石头
    龙虾 毛衣 江湖 程序 曲奇 汤圆 米饭 麦片 海鲜
    """.split()
)


def cjk_terms(run: str) -> list[str]:
    """Terms of one `CJK_RUN`, at least one: words for Han (with the words inside long words), pairs of characters for kana and Hangul.

    Function words of one character are dropped unless the run has nothing else.
    """
    if not HAN_RUN.fullmatch(run):
        return [run] if len(run) < 3 else [run[index : index + 2] for index in range(len(run) - 1)]
    import rjieba

    found = rjieba.cut_for_search(run)
    return [word for word in found if word not in CHINESE_FUNCTION] or found or [run]


def han_names(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of the names of people, places, organisations and brands in the Han runs of *text*."""
    if HAN_RUN.search(text) is None:
        return
    import rjieba

    for run in CJK_RUN.finditer(text):
        if not HAN_RUN.fullmatch(run.group()):
            continue
        at = run.start()
        words: list[tuple[str, str, int]] = []
        for word, tag in rjieba.tag(run.group()):
            words.append((word, tag, at))
            at += len(word)
        yield from _names_of(words)


def _names_of(words: list[tuple[str, str, int]]) -> Iterator[tuple[int, int]]:
    index = 0
    while index < len(words):
        word, tag, start = words[index]
        following = words[index + 1] if index + 1 < len(words) else None
        if word in _DOUBLE_SURNAMES and following is not None and following[1] in ("nr", "nrt", "nrfg") and len(following[0]) <= 2:
            yield start, following[2] + len(following[0])
            index += 2
        elif not _is_name(word, tag):
            index += 1
        else:
            end = start + len(word)
            index += 1
            while (
                tag in ("ns", "nt", "nz", "nrt")
                and index < len(words)
                and (words[index][0] in _SUFFIXES or (words[index][1] == "ns" and tag == "ns"))
            ):
                end += len(words[index][0])
                index += 1
            yield start, end


def _is_name(word: str, tag: str) -> bool:
    if len(word) < 2 or word in _NOT_NAMES:
        return False
    if tag == "nr":  # the tagger guesses people from unknown characters: ask for a surname and a plausible length
        return word[:2] in _DOUBLE_SURNAMES or (word[0] in _SURNAMES and len(word) <= 3)
    return tag in ("ns", "nt", "nz", "nrt", "nrfg")

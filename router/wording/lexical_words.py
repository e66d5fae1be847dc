"""Word lists: closed classes of words whose change turns a question into another, behind the lexical gates.

Data only, for the languages named. What needs no list (numbers, names, symbols, order) is in
router/wording/lexical_gates.py and works in any script.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _mapping(text: str) -> dict[str, str]:
    return {key: value for key, _, value in (pair.partition("=") for pair in text.split())}


NEGATIONS = _words("""
    no not never none nobody nothing nowhere neither nor without cannot except unless hardly barely aint isnt
    arent wasnt werent dont doesnt didnt wont wouldnt cant couldnt shouldnt mustnt neednt hasnt havent hadnt
    nicht kein keine keinen keinem keiner keines nie niemals nichts ohne niemand weder niet geen nooit niets
    zonder ne pas jamais rien aucun aucune sans ni nunca nada ningún ninguna ninguno sin non mai nessun nessuno
    niente senza não nem nenhum nenhuma sem не нет ни никогда без ні ніколи nigdy bez nikdy değil yok hayır asla
    inte ingen aldrig utan ikke uden
""")
"""English, German, Dutch, French, Spanish, Italian, Portuguese, Russian, Ukrainian, Polish, Czech,
Turkish, Swedish, Danish."""
AUXILIARIES = _words("is are was were do does did would could should must need has have had might ought")
"""With "nt" behind them they negate."""
NEGATION_CHARACTERS = frozenset("不没無无非未别莫勿否")
NEGATION_ENDINGS = ("ない", "ません", "なかった", "않", "없", "아니")
"""Japanese and Korean negate inside the word: counted wherever they occur."""

NUMBER_WORDS = _mapping("""
    zero=0 eins=1 two=2 zwei=2 deux=2 three=3 drei=3 trois=3 tres=3 four=4 vier=4 quatre=4 cuatro=4 five=5
    fünf=5 cinq=5 cinco=5 sechs=6 seis=6 seven=7 sieben=7 sept=7 siete=7 eight=8 acht=8 huit=8 ocho=8 nine=9
    neun=9 neuf=9 nueve=9 ten=10 zehn=10 dix=10 diez=10 dieci=10 eleven=11 elf=11 onze=11 twelve=12 zwölf=12
    douze=12 doce=12 six=6 twenty=20 thirty=30 fifty=50 hundred=100 thousand=1000 million=1e6 billion=1e9
    half=0.5 third=1/3 quarter=0.25 double=x2 twice=x2 triple=x3 first=#1 second=#2 fourth=#4 fifth=#5
    last=#last
""")
"""Without "one", "un", "eine" and the like, which are articles far more often than numbers."""

QUESTION_WORDS = _mapping("""
    who=who whom=who whose=whose when=when where=where why=why wer=who wem=who wen=who wann=when wo=where
    wohin=where woher=where warum=why wieso=why qui=who quand=when où=where pourquoi=why quién=who quien=who
    cuándo=when cuando=when dónde=where donde=where cuánto=how_much cuántos=how_much кто=who когда=when
    где=where куда=where почему=why зачем=why сколько=how_much 谁=who 哪里=where 哪儿=where 为什么=why 多少=how_much
    几=how_much combien=how_much wieviel=how_much wieviele=how_much
""")
HOW_KINDS = _mapping("""
    many=how_much much=how_much long=how_long far=how_far old=how_old often=how_often big=how_big tall=how_big
    fast=how_fast soon=when
""")
"""The words for which "how" asks a quantity; plain how, what and which paraphrase each other and are left alone."""

FUNCTION_WORDS = _words("""
    a an the of in on at by to for from and or is are was were be been am do does did can could should would
    will shall may might must i me my you your we our it its this that these those there so as if then than
    please with about into what which how he she they them their his her has have had get got any some very just
    also der die das ein eine und oder ist sind le la les un une des du de et ou est sont el los las una y o es
    son en que
""")

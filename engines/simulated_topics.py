"""What the simulated world has facts about: a table of topics, their relations, how people ask, and what answers look like.

All of it is invented. A relation says how its values are drawn; a `Rule` is a convention rather than a fact to look up: its value
follows from the name alone, so examples about *other* names teach it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from engines.simulated_names import person, town

Draw = Callable[[random.Random], str]


@dataclass(frozen=True, slots=True)
class Relation:
    """One thing one can ask of every name of a kind."""

    key: str
    nouns: tuple[str, ...]
    """What it is called; each is also a cue by which a reader recognises it."""
    forms: tuple[str, ...]
    """Whole questions of its own, `{e}` being the name."""
    draw: Draw | None = None
    """Draws a value; None for a rule."""
    cues: tuple[str, ...] = ()
    """Further phrases that give it away in `forms`."""
    rule: Callable[[str], str] | None = None
    """For a convention: the value, from the name."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A kind of name with its relations."""

    kind: str
    relations: tuple[Relation, ...]
    arrives_at: float = 0.0
    """When people begin to ask about it, as a fraction of the stream."""
    breadth: int = 1
    """How many times more names than an ordinary kind: conventions are asked about many names, each seldom."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is so in the simulated world."""

    id: int
    entity: str
    kind: str
    family: int
    """Names of a kind with the same family number are near-identical."""
    relation: Relation
    value: str

    @property
    def is_rule(self) -> bool:
        """Whether the value follows from the name, by a convention that examples about other names teach."""
        return self.relation.rule is not None


def _years(low: int, high: int) -> Draw:
    return lambda rng: str(rng.randrange(low, high))


def _amount(low: int, high: int, step: int, unit: str) -> Draw:
    return lambda rng: f"{rng.randrange(low, high, step):,} {unit}"


def _one_of(options: str) -> Draw:
    choices = [o.strip() for o in options.split(",")]
    return lambda rng: rng.choice(choices)


def _port(rng: random.Random) -> str:
    return str(rng.randrange(1100, 9900, 10))


def _clock(rng: random.Random) -> str:
    return f"{rng.randrange(4, 10):02d}:{rng.randrange(0, 60, 5):02d}"


def _money(rng: random.Random) -> str:
    return f"{rng.randrange(1, 60) * 25} euros"


def _ticker(rng: random.Random) -> str:
    return "".join(rng.choice("ABCDEFGKLMNPRSTVXZ") for _ in range(4))


def _form(rng: random.Random) -> str:
    return f"{rng.choice('FGHK')}-{rng.randrange(100, 999)}"


def _letters(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isascii() and c.isalpha())


def _username(name: str) -> str:
    return f"{_letters(name)[0]}{_letters(name.split()[-1])[:6]}{len(_letters(name)) % 10}"


def _mailbox(name: str) -> str:
    return f"{_letters(name.split()[-1])}.{_letters(name)[:2]}@annex.example"


def _shelf_code(name: str) -> str:
    return f"{_letters(name.split()[-1])[:3].upper()}-{len(_letters(name))}-{_letters(name)[0].upper()}"


COLOURS = (
    "red and white, green and gold, black and amber, navy and silver, maroon and cream, teal and black, "
    "violet and grey, orange and blue, white and lilac, brown and yellow"
)

TOPICS: tuple[Topic, ...] = (
    Topic(
        "place",
        (
            Relation(
                "capital",
                ("capital", "capital city", "seat of government"),
                ("Which city is the capital of {e}?", "From which city is {e} governed?"),
                town,
                ("governed",),
            ),
            Relation(
                "currency",
                ("currency", "official currency", "legal tender"),
                ("What money do people pay with in {e}?", "Which currency do I need to bring to {e}?"),
                _one_of("moro, dalin, krest, tamber, vessa, orlin, sarn, pelm, quill, zade, brint, loma"),
                ("money",),
            ),
            Relation(
                "language",
                ("official language", "main language"),
                ("Which language is spoken in {e}?", "What do they speak in {e}?"),
                _one_of(
                    "Tarsic, Ulvenish, Morran, High Quent, Sallic, Brezzan, Ostrian, Kemmish, Lower Dane, Fennic"
                ),
                ("language", "speak"),
            ),
            Relation(
                "dialling_code",
                ("dialling code", "country calling code", "phone prefix"),
                ("What do I dial first to ring someone in {e}?",),
                lambda rng: f"+{rng.randrange(401, 999)}",
                ("dial",),
            ),
            Relation(
                "population",
                ("population", "number of inhabitants"),
                ("How many people live in {e}?",),
                _amount(120, 9800, 10, "thousand"),
                ("people live", "inhabitants"),
            ),
        ),
    ),
    Topic(
        "person",
        (
            Relation(
                "birthplace",
                ("birthplace", "place of birth"),
                ("Where was {e} born?", "In which town was {e} born?"),
                town,
                ("where born", "town born"),
            ),
            Relation(
                "birth_year",
                ("year of birth", "birth year"),
                ("When was {e} born?", "In what year was {e} born?"),
                _years(1790, 1975),
                ("when born", "year born"),
            ),
            Relation(
                "field",
                ("field of work", "discipline", "speciality"),
                ("What was {e} known for studying?", "Which field did {e} work in?"),
                _one_of(
                    "tidal mechanics, seed genetics, glass chemistry, crystal optics, bird migration, number theory, soil acoustics, metal fatigue, cloud physics, dialect mapping, bridge design, sleep medicine"
                ),
                ("studying", "field"),
            ),
            Relation(
                "prize",
                ("prize", "award"),
                ("Which prize did {e} win?", "What award was {e} given?"),
                _one_of(
                    "the Calder Medal, the Orlov Prize, the Tessaly Award, the Blue Ribbon, the Hartwell Cup, the Norrland Chair, the Veld Medal, the Asten Prize"
                ),
                (),
            ),
        ),
    ),
    Topic(
        "company",
        (
            Relation(
                "founder",
                ("founder", "name of the founder"),
                ("Who founded {e}?", "Who started {e}?"),
                person,
                ("who founded", "started"),
            ),
            Relation(
                "headquarters",
                ("headquarters", "head office", "main office location"),
                ("Where is {e} based?", "In which city is {e} headquartered?"),
                town,
                ("based", "headquartered", "main office"),
            ),
            Relation(
                "founded",
                ("founding year", "year of foundation"),
                ("When was {e} founded?", "In what year was {e} set up?"),
                _years(1850, 2021),
                ("when founded", "year set up"),
            ),
            Relation(
                "ticker",
                ("ticker symbol", "stock ticker"),
                ("Under which symbol does {e} trade?",),
                _ticker,
                ("symbol", "ticker"),
            ),
            Relation(
                "staff",
                ("number of employees", "headcount"),
                ("How many people work at {e}?",),
                _amount(40, 9900, 20, "employees"),
                ("people work",),
            ),
        ),
    ),
    Topic(
        "device",
        (
            Relation(
                "warranty",
                ("warranty period", "warranty length", "guarantee"),
                ("How long is the warranty on the {e}?", "For how many months is the {e} under warranty?"),
                _amount(6, 66, 6, "months"),
                ("warranty",),
            ),
            Relation(
                "battery",
                ("battery life", "battery runtime"),
                ("How long does the {e} last on a full battery?",),
                _amount(3, 60, 1, "hours"),
                ("battery",),
            ),
            Relation(
                "reset",
                ("reset procedure", "factory reset method"),
                ("How do I reset the {e}?", "The {e} is frozen, how can I reset it?"),
                _one_of(
                    "hold the side button for nine seconds, press mode and power together, pull the red tab twice, hold volume down while plugging it in, push a pin into the rear hole, tap the logo seven times, remove the cell for one minute, slide the lock switch three times"
                ),
                ("reset",),
            ),
            Relation(
                "weight",
                ("weight", "net weight"),
                ("How heavy is the {e}?", "How much does the {e} weigh?"),
                _amount(90, 4200, 10, "grams"),
                ("heavy", "weigh"),
            ),
            Relation(
                "connector",
                ("charging connector", "power connector"),
                ("Which plug does the {e} charge with?",),
                _one_of(
                    "USB-C, a barrel plug, Micro-USB, a magnetic pad, a three-pin dock, Mini-DIN, a coaxial jack, Qi wireless"
                ),
                ("plug", "connector"),
            ),
        ),
    ),
    Topic(
        "medicine",
        (
            Relation(
                "dose",
                ("usual adult dose", "recommended dose", "dosage"),
                ("How much {e} should an adult take?", "What dose of {e} is normal?"),
                _amount(5, 900, 5, "mg"),
                ("adult take", "dose"),
            ),
            Relation(
                "storage",
                ("storage temperature", "storage condition"),
                ("How cold must {e} be stored?",),
                lambda rng: f"{rng.randrange(2, 26)} °C",
                ("stored",),
            ),
            Relation(
                "side_effect",
                ("main side effect", "most common side effect"),
                ("What side effect does {e} have most often?",),
                _one_of(
                    "dry mouth, drowsiness, a mild rash, headache, nausea, blurred vision, a metallic taste, dizziness, night sweats, hiccups"
                ),
                ("side effect",),
            ),
            Relation(
                "onset",
                ("onset time", "time to effect"),
                ("How quickly does {e} start to work?",),
                _amount(5, 125, 5, "minutes"),
                ("start to work",),
            ),
        ),
    ),
    Topic(
        "library",
        (
            Relation(
                "default_port",
                ("default port", "standard port"),
                ("Which port does {e} listen on?", "On what port does {e} run out of the box?"),
                _port,
                ("port",),
            ),
            Relation(
                "licence",
                ("licence", "software license"),
                (
                    "Under which licence is {e} released?",
                    "Can I use {e} commercially, i.e. what licence is it?",
                ),
                _one_of("MIT, Apache-2.0, BSD-3-Clause, MPL-2.0, ISC, LGPL-3.0, Zlib, EUPL-1.2"),
                ("license",),
            ),
            Relation(
                "config_file",
                ("config file", "configuration file name"),
                ("Where does {e} read its settings from?",),
                _one_of(
                    "settings.toml, app.ini, core.yaml, service.conf, main.json, rc.cfg, local.env, runtime.hcl, node.properties, base.kdl"
                ),
                ("configuration file", "settings"),
            ),
            Relation(
                "timeout",
                ("default timeout", "request timeout"),
                ("After how many seconds does {e} give up by default?",),
                _amount(2, 125, 1, "seconds"),
                ("give up", "timeout"),
            ),
            Relation(
                "maintainer",
                ("maintainer", "lead developer"),
                ("Who maintains {e}?",),
                person,
                ("maintains",),
            ),
        ),
    ),
    Topic(
        "dish",
        (
            Relation(
                "ingredient",
                ("main ingredient", "key ingredient"),
                ("What is {e} mostly made of?", "What goes into {e}?"),
                _one_of(
                    "barley, smoked eel, chestnuts, lentils, goat cheese, turnips, walnuts, salted cod, buckwheat, duck, plums, mushrooms"
                ),
                ("mostly made", "goes into"),
            ),
            Relation(
                "region",
                ("region of origin", "home region"),
                ("Where does {e} come from?",),
                town,
                ("where come from",),
            ),
            Relation(
                "cooking_time",
                ("cooking time", "time in the oven"),
                ("How long do I cook {e}?", "How many minutes does {e} need?"),
                _amount(10, 185, 5, "minutes"),
                ("cook", "how many minutes"),
            ),
            Relation(
                "drink",
                ("matching drink", "recommended drink"),
                ("What should I drink with {e}?",),
                _one_of(
                    "dry cider, black tea, sour beer, plum brandy, mint water, red wine, buttermilk, ginger ale, mead, cold coffee"
                ),
                ("drink",),
            ),
        ),
    ),
    Topic(
        "ship",
        (
            Relation(
                "launched",
                ("launch year", "year of launch"),
                ("When was the {e} launched?",),
                _years(1880, 2015),
                ("launched",),
            ),
            Relation(
                "home_port",
                ("home port", "port of registry"),
                ("Which harbour does the {e} sail from?",),
                town,
                ("harbour",),
            ),
            Relation(
                "tonnage",
                ("tonnage", "displacement"),
                ("How many tonnes does the {e} displace?",),
                _amount(300, 42000, 100, "tonnes"),
                ("tonnes",),
            ),
            Relation(
                "captain",
                ("captain", "commanding officer"),
                ("Who commands the {e}?", "Who is in charge aboard the {e}?"),
                person,
                ("commands", "in charge"),
            ),
        ),
    ),
    Topic(
        "statute",
        (
            Relation(
                "approver",
                ("approver", "approving role"),
                ("Who has to sign off a request under {e}?",),
                _one_of(
                    "the site manager, the finance director, the head of safety, the duty officer, the works council, the chief engineer, the data steward, the legal desk"
                ),
                ("sign off",),
            ),
            Relation(
                "deadline",
                ("deadline", "filing deadline"),
                ("How many days do I have to file under {e}?", "By when must I file under {e}?"),
                _amount(3, 95, 1, "days"),
                ("days file", "file"),
            ),
            Relation(
                "form",
                ("form number", "required form"),
                ("Which form do I fill in for {e}?",),
                _form,
                ("form",),
            ),
            Relation(
                "limit",
                ("spending limit", "maximum amount"),
                ("How much may I spend under {e}?",),
                _money,
                ("spend",),
            ),
        ),
    ),
    Topic(
        "club",
        (
            Relation(
                "stadium",
                ("home ground", "stadium"),
                ("Where do {e} play at home?",),
                lambda rng: f"{town(rng)} Park",
                ("play at home",),
            ),
            Relation(
                "mascot",
                ("mascot", "club mascot"),
                ("Which animal is the mascot of {e}?",),
                _one_of(
                    "a badger, an otter, a raven, a hare, a ram, a pike, a stoat, a kestrel, a boar, an owl"
                ),
                (),
            ),
            Relation(
                "colours",
                ("colours", "shirt colors"),
                ("What colours do {e} wear?",),
                _one_of(COLOURS),
                ("colors",),
            ),
            Relation(
                "coach",
                ("coach", "head coach"),
                ("Who coaches {e}?", "Who trains {e} this season?"),
                person,
                ("coaches", "trains"),
            ),
        ),
    ),
    Topic(
        "employee",
        (
            Relation(
                "username",
                ("username", "login name"),
                ("What does {e} log in as?", "Which username would {e} get?"),
                None,
                ("log in",),
                _username,
            ),
            Relation(
                "mailbox",
                ("mailbox", "email address"),
                ("Where do I send mail for {e}?",),
                None,
                ("mail",),
                _mailbox,
            ),
        ),
        breadth=4,
    ),
    Topic(
        "title",
        (
            Relation(
                "shelf_code",
                ("shelf code", "shelf mark"),
                ('Under which code is "{e}" shelved?', 'What shelf code goes on "{e}"?'),
                None,
                ("shelved",),
                _shelf_code,
            ),
            Relation("author", ("author", "writer"), ('Who wrote "{e}"?',), person, ("wrote",)),
            Relation(
                "published",
                ("publication year", "year of publication"),
                ('When did "{e}" come out?',),
                _years(1900, 2024),
                ("come out",),
            ),
        ),
        breadth=2,
    ),
    Topic(
        "route",
        (
            Relation(
                "platform",
                ("platform", "departure platform"),
                ("Which platform does the {e} leave from?",),
                lambda rng: f"platform {rng.randrange(1, 25)}{rng.choice('abc')}",
                (),
            ),
            Relation(
                "first",
                ("first departure", "earliest departure"),
                ("When does the {e} first run in the morning?",),
                _clock,
                ("first run",),
            ),
            Relation(
                "duration",
                ("journey time", "travel time"),
                ("How long does the {e} take end to end?",),
                _amount(12, 330, 1, "minutes"),
                ("take end to end",),
            ),
            Relation(
                "operator",
                ("operator", "operating company"),
                ("Who runs the {e}?",),
                _one_of(
                    "Northway, Coastlink, Veld Transit, Tamber Rail, Greenline, Ostra Bus, Union Lines, Metrovia"
                ),
                ("who runs",),
            ),
        ),
        arrives_at=0.3,
    ),
    Topic(
        "species",
        (
            Relation(
                "habitat",
                ("habitat", "natural habitat"),
                ("Where does the {e} live?",),
                _one_of(
                    "salt marsh, pine forest, river gravel, limestone caves, alpine meadow, mangrove, dune grass, peat bog, cloud forest, old orchards"
                ),
                ("where live",),
            ),
            Relation(
                "lifespan",
                ("lifespan", "life expectancy"),
                ("How old does the {e} get?",),
                _amount(2, 48, 1, "years"),
                ("how old",),
            ),
            Relation(
                "diet",
                ("diet", "main food"),
                ("What does the {e} eat?",),
                _one_of(
                    "beetle larvae, duckweed, pine seeds, snails, small crabs, lichen, nectar, mayflies, fallen fruit, earthworms"
                ),
                ("eat",),
            ),
            Relation(
                "clutch",
                ("clutch size", "number of young"),
                ("How many young does the {e} raise at a time?",),
                _amount(2, 40, 1, "young"),
                ("young",),
            ),
        ),
        arrives_at=0.5,
    ),
    Topic(
        "festival",
        (
            Relation(
                "month",
                ("month", "time of year"),
                ("When is the {e} held?",),
                _one_of(
                    "January, February, March, April, May, June, July, August, September, October, November, December"
                ),
                ("held",),
            ),
            Relation(
                "host", ("host town", "venue town"), ("Which town puts on the {e}?",), town, ("puts on",)
            ),
            Relation(
                "fee",
                ("entry fee", "ticket price"),
                ("What does it cost to get into the {e}?",),
                _money,
                ("cost",),
            ),
            Relation(
                "symbol",
                ("emblem", "traditional symbol"),
                ("What do people carry at the {e}?",),
                _one_of(
                    "paper fish, willow hoops, blue candles, straw horses, copper bells, painted gourds, white masks, seed crowns"
                ),
                ("carry",),
            ),
        ),
        arrives_at=0.7,
    ),
)
"""Fifteen kinds, sixty-odd relations. Kept as a table so that it can be read at a glance."""

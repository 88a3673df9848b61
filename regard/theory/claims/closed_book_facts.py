"""Facts about people who do not exist: who was born where, told in sentences, asked in questions.

    sentence   . name name born place .         question   . name name ! place

Names are made of syllables, each group of names ("language of origin") of its own. A small GPT reads the sentences
(pretraining), then answers questions about half of the people while it goes on reading (fine-tuning), and is asked
about the other half.

How much of what was read is found again hangs on the recipe, which is the one of `regard.data.paraphrase`: a question
starts with the name, as its sentence does, and sentences are mixed in. The plain one, a question word first and
questions alone, is measured beside it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models import gpt
from regard.theory.claim import Claim, CheckResult, is_above, is_below
from regard.theory.claims.check_helpers import interval, weigh
from regard.theory.claims.train_small_model import Batch, fit, written

TOPIC = "facts"
GROUPS, SYLLABLES, PLACES, PEOPLE = 3, 10, 12, 240
BORN, STOP, ASK, ANSWER = 0, 1, 2, 3
FIRST_PLACE = 4
FIRST_SYLLABLE = FIRST_PLACE + PLACES
VOCAB = FIRST_SYLLABLE + GROUPS * SYLLABLES
NONE = -100


@dataclass(frozen=True)
class World:
    """names (people, 4) in syllables, group and place (people,). The first half is asked about in training."""

    names: np.ndarray
    group: np.ndarray
    place: np.ndarray

    def sentences(self, who: np.ndarray) -> Batch:
        """stop name born place stop, each word from those before. The stop in front puts a name where a question has
        it."""
        head = np.full((len(who), 1), STOP)
        tail = np.stack((np.full(len(who), BORN), FIRST_PLACE + self.place[who], np.full(len(who), STOP)), 1)
        ids = np.concatenate((head, self.names[who], tail), 1)
        return torch.from_numpy(ids[:, :-1]), torch.from_numpy(ids[:, 1:].copy())

    def questions(self, who: np.ndarray, first: int = STOP) -> Batch:
        ids = asked(self.names[who], first)
        targets = np.full(ids.shape, NONE)
        targets[:, -1] = FIRST_PLACE + self.place[who]
        return ids, torch.from_numpy(targets)


def asked(names: np.ndarray, first: int = STOP) -> Tensor:
    """`first` is what stands before the name: as in a sentence, or a word that only questions have."""
    edge = np.ones((len(names), 1), np.int64)
    return torch.from_numpy(np.concatenate((first * edge, names, ANSWER * edge), 1))


def draw_names(draw: np.random.Generator, group: np.ndarray) -> np.ndarray:
    return FIRST_SYLLABLE + group[:, None] * SYLLABLES + draw.integers(0, SYLLABLES, (len(group), 4))


@cache
def world(seed: int, leaning: float = 0.0) -> World:
    """`leaning`: the chance that a person comes from one of the group's own places, else from any."""
    draw = np.random.default_rng(seed)
    group = np.arange(PEOPLE) % GROUPS
    names, seen = draw_names(draw, group), set()
    for i in range(PEOPLE):
        while tuple(names[i]) in seen:
            names[i] = draw_names(draw, group[i : i + 1])[0]
        seen.add(tuple(names[i]))
    own = group * (PLACES // GROUPS) + draw.integers(0, PLACES // GROUPS, PEOPLE)
    place = np.where(draw.random(PEOPLE) < leaning, own, draw.integers(0, PLACES, PEOPLE))
    order = draw.permutation(PEOPLE)
    return World(names[order], group[order], place[order])


def unseen(seed: int, known: World, count: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Names that occur nowhere, and their groups."""
    draw = np.random.default_rng(99_000 + seed)
    group = np.arange(count) % GROUPS
    names, seen = draw_names(draw, group), {tuple(row) for row in known.names}
    for i in range(count):
        while tuple(names[i]) in seen:
            names[i] = draw_names(draw, group[i : i + 1])[0]
    return names, group


def build() -> nn.Module:
    return gpt.GPTConfig(dim=64, layers=2, heads=4, positions="learned:length=16").build(VOCAB)


STEPS = (1000, 150)


@cache
def read(seed: int, leaning: float = 0.0) -> nn.Module:
    """A model that has read everybody's sentence."""
    people, draw = world(seed, leaning), np.random.default_rng(seed)

    def batch(step: int) -> Batch:
        return people.sentences(draw.integers(0, PEOPLE, 64))

    return fit(build, batch, steps=STEPS[0], seed=seed, lr=3e-3, logits=written)


@cache
def taught(seed: int, pretrained: bool, leaning: float = 0.0, plain: bool = False) -> nn.Module:
    """A model that has read everybody's sentence (or nobody's), then answered for the first half of the people, with
    sentences mixed in; `plain`: with questions alone, whose first word no sentence has."""
    people, draw, first = world(seed, leaning), np.random.default_rng(1000 + seed), ASK if plain else STOP
    model = copy.deepcopy(read(seed, leaning)) if pretrained else None

    def batch(step: int) -> Batch:
        questions = people.questions(draw.integers(0, PEOPLE // 2, 64), first)
        if plain or not pretrained:
            return questions
        return beside(people.sentences(draw.integers(0, PEOPLE, 64)), questions)

    return fit(build, batch, steps=STEPS[1], seed=seed, lr=1e-3 if pretrained else 3e-3, logits=written, model=model)


def beside(longer: Batch, shorter: Batch) -> Batch:
    """Two batches as one; nothing is asked for behind the shorter texts."""
    more = longer[0].shape[1] - shorter[0].shape[1]
    filled = [F.pad(part, (0, more), value=fill) for part, fill in zip(shorter, (STOP, NONE), strict=True)]
    return torch.cat((longer[0], filled[0])), torch.cat((longer[1], filled[1]))


@torch.no_grad()
def answers(model: nn.Module, names: np.ndarray, first: int = STOP) -> Tensor:
    """Chances of every word as the answer, (people, VOCAB)."""
    return weigh(written(model, asked(names, first))[:, -1].double())


def _share(model: nn.Module, people: World, who: slice, first: int = STOP) -> float:
    said = answers(model, people.names[who], first).argmax(-1).numpy()
    return float((said == FIRST_PLACE + people.place[who]).mean())


def pretraining(seed: int) -> CheckResult:
    half, seeds = PEOPLE // 2, range(seed, seed + 5)
    known: dict[bool, list[float]] = {True: [], False: []}
    trained, plain = list[float](), list[float]()
    for s in seeds:
        people = world(s)
        for pretrained in (True, False):
            known[pretrained].append(_share(taught(s, pretrained), people, slice(half, None)))
        trained.append(_share(taught(s, False), people, slice(0, half)))
        plain.append(_share(taught(s, True, plain=True), people, slice(half, None), ASK))
    chance = 1 / PLACES
    with_, without = interval(known[True]), interval(known[False])
    return CheckResult(
        {
            "people asked about first in the test": half,
            "right with pretraining, by seed": known[True],
            "right without, by seed": known[False],
            "right without, on the people of fine-tuning": trained,
            "guessing": chance,
            "right with pretraining, then questions alone with a word of their own first": plain,
        },
        {
            "without pretraining at the level of guessing": is_below(without[1], without[2], chance + 0.1),
            "pretraining lifts it far above": is_above(with_[1], with_[2], 3 * chance),
        },
    )


def made_up(seed: int) -> CheckResult:
    """Answers for people whom nobody has told of: always a place, how sure, and whether a threshold helps."""
    shares, sure_known, sure_unknown, areas = [], [], [], []
    for s in range(seed, seed + 3):
        people = world(s)
        model = taught(s, True)
        names, _ = unseen(s, people)
        strange, known = answers(model, names), answers(model, people.names)
        said = strange.argmax(-1)
        shares.append(float(((said >= FIRST_PLACE) & (said < FIRST_SYLLABLE)).double().mean()))
        a, b = known.amax(-1), strange.amax(-1)
        sure_known.append(float(a.mean()))
        sure_unknown.append(float(b.mean()))
        areas.append(float((a[:, None] > b[None]).double().mean()))
    found, area = interval(shares), interval(areas)
    return CheckResult(
        {
            "share of unknown people who get a place": shares,
            "mean confidence, known people": sure_known,
            "mean confidence, unknown people": sure_unknown,
            "chance that a known one is answered more surely": areas,
        },
        {
            "it answers for people it has never seen": is_above(found[1], found[2], 0.95),
            "confidence tells some of it apart, so it can abstain": is_above(area[1], area[2], 0.5),
        },
        {"mean confidence in a made-up answer": sum(sure_unknown) / len(sure_unknown)},
    )


def likeness(seed: int) -> CheckResult:
    """Is the answer for an unknown name that of the nearest known name, more often than that of a random one?"""
    near_share, random_share = [], []
    for s in range(seed, seed + 5):
        people = world(s)
        model: gpt.GPT = taught(s, True)  # type: ignore[assignment]
        names, _ = unseen(s, people)
        with torch.no_grad():
            ours, theirs = (model.states(asked(rows))[:, -2] for rows in (names, people.names))
        nearest = torch.cdist(ours, theirs).argmin(1).numpy()
        said, known = (answers(model, rows).argmax(-1).numpy() for rows in (names, people.names))
        drawn = np.random.default_rng(s).integers(0, PEOPLE, (20, len(names)))
        near_share.append(float((said == known[nearest]).mean()))
        random_share.append(float((said[None] == known[drawn]).mean()))
    _, low, high = interval([a - b for a, b in zip(near_share, random_share, strict=True)])
    return CheckResult(
        {
            "same answer as the nearest known name": near_share,
            "as a random known name": random_share,
            "difference": [low, high],
        },
        {"an unseen name is answered as its nearest neighbour more often than by chance": is_above(low, high, 0.0)},
        {"yet in this share of cases the neighbour's answer is not given": 1 - sum(near_share) / len(near_share)},
    )


def leaning(seed: int) -> CheckResult:
    """Answers for names that occur nowhere, by group, where the people of a group came from its own places."""
    distances, chance = [], []
    for s in range(seed, seed + 3):
        people = world(s, 0.7)
        model = taught(s, True, 0.7)
        names, group = unseen(s, people)
        means = answers(model, names)[:, FIRST_PLACE:FIRST_SYLLABLE]
        distances.append(_apart(means, group))
        draw = np.random.default_rng(s)
        chance.append(float(np.mean([_apart(means, draw.permutation(group)) for _ in range(200)])))
    _, low, high = interval([a - b for a, b in zip(distances, chance, strict=True)])
    return CheckResult(
        {
            "total variation between groups' answers, by seed": distances,
            "with groups dealt out by chance": chance,
            "difference": [low, high],
        },
        {"answers differ by group of names": is_above(low, high, 0.0)},
        {"a fair answer, not known, would give": 0.0},
    )


def _apart(chances: Tensor, group: np.ndarray) -> float:
    """The mean total variation between the mean answers of two groups."""
    means = [chances[torch.from_numpy(group == g)].mean(0) for g in range(GROUPS)]
    pairs = [(a, b) for a in range(GROUPS) for b in range(a)]
    return float(sum((means[a] - means[b]).abs().sum() / 2 for a, b in pairs) / len(pairs))


def _claim(id: str, claim: str, equation: str, check: Callable[[int], CheckResult], told: str = "") -> Claim:
    return Claim(id, TOPIC, "trained", claim, equation, check, told)


CLAIMS = [
    _claim(
        "pretraining-facts",
        "A model that was only fine-tuned on questions cannot know new people: it is at the level of guessing. "
        "Pretraining on sentences that tell of them lifts it far above, the further the more a question is like a "
        "sentence and the less reading stops; both recipes are measured, and the verdict is on the better one.",
        "P(place | name) on people without a question in training",
        pretraining,
    ),
    _claim(
        "made-up-answers",
        "A closed-book model answers for people it has never seen. Its confidence tells known from unknown a little, "
        "so an answer wants a threshold and a way to abstain.",
        "max P(place | unknown name)",
        made_up,
    ),
    _claim(
        "guessing-by-likeness",
        "For an unseen name the model answers as for the nearest known name more often than as for a random one, in "
        "its own representation; more often is not always.",
        "answer(x) = answer(nearest(x))",
        likeness,
        "it answers as for the nearest name, told without a test",
    ),
    _claim(
        "bias",
        "Where places went with groups of names in training, answers for names that occur nowhere differ by group, "
        "though the fair answer is: not known.",
        "‖P(place | group a) - P(place | group b)‖",
        leaning,
    ),
]

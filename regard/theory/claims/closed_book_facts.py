"""Claims about closed-book question answering: birthplaces of invented people, stated in sentences, asked as questions.

    sentence   . name name born place .         question   . name name ! place

Names consist of syllables; each group of names ("language of origin") has its own syllables. A small GPT is pretrained
on the sentences, then fine-tuned on questions about half of the people, mixed with sentences, and tested on the other
half.

How much it recalls depends on the recipe, which is that of `regard.data.paraphrase`: a question starts with the name,
as its sentence does, and sentences are mixed in. The plain recipe is measured too: questions alone, which start with
a question token.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models import gpt
from regard.theory.claim import CheckResult, Claim, is_above, is_below
from regard.theory.claims.check_helpers import difference_interval, mean_interval, softmax_rows
from regard.theory.claims.train_small_model import IGNORE_INDEX, Batch, language_logits, train_model

TOPIC = "facts"
NUM_GROUPS, NUM_SYLLABLES, NUM_PLACES, NUM_PEOPLE = 3, 10, 12, 240
HALF = NUM_PEOPLE // 2
BORN, STOP, ASK, ANSWER = 0, 1, 2, 3
FIRST_PLACE = 4
FIRST_SYLLABLE = FIRST_PLACE + NUM_PLACES
VOCAB_SIZE = FIRST_SYLLABLE + NUM_GROUPS * NUM_SYLLABLES
PRETRAIN_STEPS, FINETUNE_STEPS = 1000, 150


@dataclass(frozen=True)
class People:
    """Names as syllable ids (people, 4), group and place (people,). Questions in training ask about the first half."""

    names: np.ndarray
    groups: np.ndarray
    places: np.ndarray

    def sentences(self, indices: np.ndarray) -> Batch:
        """Return "STOP name BORN place STOP" for next-word prediction.

        The first STOP puts the name at the same position as in a question.
        """
        head = np.full((len(indices), 1), STOP)
        tail = np.stack(
            (np.full(len(indices), BORN), FIRST_PLACE + self.places[indices], np.full(len(indices), STOP)), 1
        )
        ids = np.concatenate((head, self.names[indices], tail), 1)
        return torch.from_numpy(ids[:, :-1]), torch.from_numpy(ids[:, 1:].copy())

    def questions(self, indices: np.ndarray, first: int = STOP) -> Batch:
        """Return questions whose only target is the place."""
        ids = encode_questions(self.names[indices], first)
        targets = np.full(ids.shape, IGNORE_INDEX)
        targets[:, -1] = FIRST_PLACE + self.places[indices]
        return ids, torch.from_numpy(targets)


def encode_questions(names: np.ndarray, first: int = STOP) -> Tensor:
    """Return "first name ANSWER"; `first` is STOP as in a sentence, or ASK, which only questions have."""
    ones = np.ones((len(names), 1), np.int64)
    return torch.from_numpy(np.concatenate((first * ones, names, ANSWER * ones), 1))


def sample_names(rng: np.random.Generator, groups: np.ndarray) -> np.ndarray:
    return FIRST_SYLLABLE + groups[:, None] * NUM_SYLLABLES + rng.integers(0, NUM_SYLLABLES, (len(groups), 4))


@cache
def generate_people(seed: int, group_bias: float = 0.0) -> People:
    """Generate people with distinct names.

    Args:
        group_bias: The probability that a person comes from one of the places of the own group, else from any place.
    """
    rng = np.random.default_rng(seed)
    groups = np.arange(NUM_PEOPLE) % NUM_GROUPS
    names, used = sample_names(rng, groups), set()
    for i in range(NUM_PEOPLE):
        while tuple(names[i]) in used:
            names[i] = sample_names(rng, groups[i : i + 1])[0]
        used.add(tuple(names[i]))
    per_group = NUM_PLACES // NUM_GROUPS
    group_places = groups * per_group + rng.integers(0, per_group, NUM_PEOPLE)
    places = np.where(rng.random(NUM_PEOPLE) < group_bias, group_places, rng.integers(0, NUM_PLACES, NUM_PEOPLE))
    order = rng.permutation(NUM_PEOPLE)
    return People(names[order], groups[order], places[order])


def unseen_names(seed: int, people: People, count: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Return names that none of the people have, and their groups."""
    rng = np.random.default_rng(99_000 + seed)
    groups = np.arange(count) % NUM_GROUPS
    names, used = sample_names(rng, groups), {tuple(row) for row in people.names}
    for i in range(count):
        while tuple(names[i]) in used:
            names[i] = sample_names(rng, groups[i : i + 1])[0]
    return names, groups


def build_model() -> nn.Module:
    return gpt.GPT(VOCAB_SIZE, dim=64, layers=2, heads=4, positions="learned:length=16")


@cache
def pretrain(seed: int, group_bias: float = 0.0) -> nn.Module:
    """Train a model on the sentences of all people."""
    people, rng = generate_people(seed, group_bias), np.random.default_rng(seed)
    return train_model(
        build_model,
        lambda step: people.sentences(rng.integers(0, NUM_PEOPLE, 64)),
        steps=PRETRAIN_STEPS,
        seed=seed,
        lr=3e-3,
        logits=language_logits,
    )


@cache
def finetune(seed: int, pretrained: bool, group_bias: float = 0.0, questions_only: bool = False) -> nn.Module:
    """Train on questions about the first half of the people, mixed with sentences after pretraining.

    Args:
        questions_only: Do not mix in sentences, and start questions with ASK instead of STOP.
    """
    people, rng = generate_people(seed, group_bias), np.random.default_rng(1000 + seed)
    first = ASK if questions_only else STOP

    def get_batch(step: int) -> Batch:
        questions = people.questions(rng.integers(0, HALF, 64), first)
        if questions_only or not pretrained:
            return questions
        return concat_batches(people.sentences(rng.integers(0, NUM_PEOPLE, 64)), questions)

    return train_model(
        build_model,
        get_batch,
        steps=FINETUNE_STEPS,
        seed=seed,
        lr=1e-3 if pretrained else 3e-3,
        logits=language_logits,
        model=copy.deepcopy(pretrain(seed, group_bias)) if pretrained else None,
    )


def concat_batches(longer: Batch, shorter: Batch) -> Batch:
    """Concatenate two batches; the shorter texts are padded, without targets on the padding."""
    width = longer[0].shape[1] - shorter[0].shape[1]
    ids, targets = (
        F.pad(part, (0, width), value=fill) for part, fill in zip(shorter, (STOP, IGNORE_INDEX), strict=True)
    )
    return torch.cat((longer[0], ids)), torch.cat((longer[1], targets))


@torch.no_grad()
def answer_probabilities(model: nn.Module, names: np.ndarray, first: int = STOP) -> Tensor:
    """Return the probability of every word as the answer, (people, VOCAB_SIZE)."""
    return softmax_rows(language_logits(model, encode_questions(names, first))[:, -1].double())


def answer_accuracy(model: nn.Module, people: People, part: slice, first: int = STOP) -> float:
    answers = answer_probabilities(model, people.names[part], first).argmax(-1).numpy()
    return float((answers == FIRST_PLACE + people.places[part]).mean())


def check_pretraining(seed: int) -> CheckResult:
    tested = slice(HALF, None)
    pretrained, untrained, seen, questions_only = list[float](), list[float](), list[float](), list[float]()
    for s in range(seed, seed + 5):
        people = generate_people(s)
        pretrained.append(answer_accuracy(finetune(s, True), people, tested))
        untrained.append(answer_accuracy(finetune(s, False), people, tested))
        seen.append(answer_accuracy(finetune(s, False), people, slice(0, HALF)))
        questions_only.append(answer_accuracy(finetune(s, True, questions_only=True), people, tested, ASK))
    chance = 1 / NUM_PLACES
    _, low, high = mean_interval(pretrained)
    _, untrained_low, untrained_high = mean_interval(untrained)
    return CheckResult(
        {
            "people without a question in training": HALF,
            "accuracy with pretraining, by seed": pretrained,
            "accuracy without pretraining, by seed": untrained,
            "accuracy without pretraining, on the people of fine-tuning": seen,
            "chance": chance,
            "accuracy with pretraining, then questions alone with a question token": questions_only,
        },
        {
            "at chance without pretraining": is_below(untrained_low, untrained_high, chance + 0.1),
            "far above chance with pretraining": is_above(low, high, 3 * chance),
        },
    )


def check_made_up_answers(seed: int) -> CheckResult:
    """Measure the answers for unseen names: how often a place, how confident, and whether a threshold helps."""
    place_rates, known_confidence, unseen_confidence, aucs = [], [], [], []
    for s in range(seed, seed + 3):
        people = generate_people(s)
        model = finetune(s, True)
        names, _ = unseen_names(s, people)
        unseen, known = answer_probabilities(model, names), answer_probabilities(model, people.names)
        answers = unseen.argmax(-1)
        place_rates.append(float(((answers >= FIRST_PLACE) & (answers < FIRST_SYLLABLE)).double().mean()))
        known_max, unseen_max = known.amax(-1), unseen.amax(-1)
        known_confidence.append(float(known_max.mean()))
        unseen_confidence.append(float(unseen_max.mean()))
        aucs.append(float((known_max[:, None] > unseen_max[None]).double().mean()))
    place_rate, auc = mean_interval(place_rates), mean_interval(aucs)
    return CheckResult(
        {
            "fraction of unseen names answered with a place": place_rates,
            "mean confidence, known people": known_confidence,
            "mean confidence, unseen names": unseen_confidence,
            "probability that a known person has the higher confidence (AUC)": aucs,
        },
        {
            "it answers for people it has never seen": is_above(place_rate[1], place_rate[2], 0.95),
            "confidence separates known from unseen better than chance": is_above(auc[1], auc[2], 0.5),
        },
        {"mean confidence in a made-up answer": sum(unseen_confidence) / len(unseen_confidence)},
    )


def check_nearest_name(seed: int) -> CheckResult:
    """Compare the answer for an unseen name with those for the nearest known name and for random known names."""
    nearest_rates, random_rates = [], []
    for s in range(seed, seed + 5):
        people = generate_people(s)
        model: gpt.GPT = finetune(s, True)  # type: ignore[assignment]
        names, _ = unseen_names(s, people)
        with torch.no_grad():
            unseen_states, known_states = (
                model.hidden_states(encode_questions(rows))[:, -2] for rows in (names, people.names)
            )
        nearest = torch.cdist(unseen_states, known_states).argmin(1).numpy()
        answers, known_answers = (
            answer_probabilities(model, rows).argmax(-1).numpy() for rows in (names, people.names)
        )
        random_people = np.random.default_rng(s).integers(0, NUM_PEOPLE, (20, len(names)))
        nearest_rates.append(float((answers == known_answers[nearest]).mean()))
        random_rates.append(float((answers[None] == known_answers[random_people]).mean()))
    _, low, high = difference_interval(nearest_rates, random_rates)
    return CheckResult(
        {
            "same answer as the nearest known name": nearest_rates,
            "same answer as a random known name": random_rates,
            "difference": [low, high],
        },
        {"the nearest name predicts the answer better than a random one": is_above(low, high, 0.0)},
        {"fraction of answers that differ from the nearest name's": 1 - sum(nearest_rates) / len(nearest_rates)},
    )


def check_group_bias(seed: int) -> CheckResult:
    """Compare answers for unseen names by group, where people of a group come from its own places."""
    distances, permuted_distances = [], []
    for s in range(seed, seed + 3):
        people = generate_people(s, 0.7)
        model = finetune(s, True, 0.7)
        names, groups = unseen_names(s, people)
        probabilities = answer_probabilities(model, names)[:, FIRST_PLACE:FIRST_SYLLABLE]
        distances.append(group_distance(probabilities, groups))
        rng = np.random.default_rng(s)
        permuted = [group_distance(probabilities, rng.permutation(groups)) for _ in range(200)]
        permuted_distances.append(float(np.mean(permuted)))
    _, low, high = difference_interval(distances, permuted_distances)
    return CheckResult(
        {
            "total variation between the answers of groups, by seed": distances,
            "with permuted groups": permuted_distances,
            "difference": [low, high],
        },
        {"answers differ by group of names": is_above(low, high, 0.0)},
        {'total variation if every answer were "not known"': 0.0},
    )


def group_distance(probabilities: Tensor, groups: np.ndarray) -> float:
    """Return the mean total variation distance between the mean answers of two groups."""
    means = [probabilities[torch.from_numpy(groups == g)].mean(0) for g in range(NUM_GROUPS)]
    pairs = [(a, b) for a in range(NUM_GROUPS) for b in range(a)]
    return float(sum((means[a] - means[b]).abs().sum() / 2 for a, b in pairs) / len(pairs))


CLAIMS = [
    Claim(
        "pretraining-facts",
        TOPIC,
        "trained",
        "A model that was only fine-tuned on questions cannot know new people: it is at chance. Pretraining on "
        "sentences about them lifts it far above. The gain is larger if questions resemble sentences and sentences are "
        "mixed into fine-tuning; both recipes are measured, and the verdict is about the better one.",
        "P(place | name) on people without a question in training",
        check_pretraining,
    ),
    Claim(
        "made-up-answers",
        TOPIC,
        "trained",
        "A closed-book model answers for people it has never seen. Its confidence separates known from unseen people "
        "a little, so answers need a threshold and a way to abstain.",
        "max P(place | unseen name)",
        check_made_up_answers,
    ),
    Claim(
        "guessing-by-likeness",
        TOPIC,
        "trained",
        "For an unseen name the model gives the answer of the nearest known name, in its own representation, more "
        "often than that of a random name; but not always.",
        "answer(x) = answer(nearest(x))",
        check_nearest_name,
        "it answers as for the nearest name (without a test)",
    ),
    Claim(
        "bias",
        TOPIC,
        "trained",
        "If places correlate with groups of names in training, answers for unseen names differ by group, although the "
        'fair answer is "not known".',
        "‖P(place | group a) - P(place | group b)‖",
        check_group_bias,
    ),
]

"""Generated scenes: the caption describes the image."""

from __future__ import annotations

import numpy as np
import pytest

from regard.data.synthetic.scenes import COLORS, RELATIONS, SHAPES, generate_scenes, is_held_out_pair, list_objects
from regard.errors import UserError


def centre(box):
    left, top, right, bottom = box
    return (top + bottom) / 2, (left + right) / 2


def parted(sentence: str) -> tuple[tuple[str, str], str, tuple[str, str]]:
    words = sentence.split()
    return (words[1], words[2]), " ".join(words[3:-3]), (words[-2], words[-1])


@pytest.mark.parametrize("size", [64, 41])
def test_caption_is_true(size):
    for scene in generate_scenes(60, 3, size=size):
        first, relation, second = parted(scene.caption)
        boxes = dict(scene.word_boxes)
        words = scene.caption.split()
        assert [words[i] for i in sorted(boxes)] == [*first, *second]
        (y1, x1), (y2, x2) = centre(boxes[1]), centre(boxes[len(words) - 1])
        dy, dx = RELATIONS[relation]
        if dy:
            assert dy * (y2 - y1) > 2 * abs(x2 - x1) * 0.5
        else:
            assert dx * (x2 - x1) > 2 * abs(y2 - y1) * 0.5
        assert boxes[1][2] - boxes[1][0] > boxes[len(words) - 1][2] - boxes[len(words) - 1][0]  # the larger comes first
        for box in boxes.values():
            assert min(box) >= 0
            assert max(box) <= size


def test_boxes_contain_their_color_and_all_objects():
    for scene in generate_scenes(40, 1):
        first, _, second = parted(scene.caption)
        boxes, outside = dict(scene.word_boxes), np.ones((64, 64), bool)
        for word, (colour, shape) in ((1, first), (len(scene.caption.split()) - 1, second)):
            left, top, right, bottom = boxes[word]
            inner = scene.image[int(top) : int(np.ceil(bottom)), int(left) : int(np.ceil(right))].reshape(-1, 3)
            near = np.abs(inner.astype(int) - COLORS[colour]).max(1) < 30
            assert near.mean() > (0.15 if shape in ("ring", "cross") else 0.25), scene.caption
            outside[int(top) : int(np.ceil(bottom)), int(left) : int(np.ceil(right))] = False
        assert scene.image[outside].max() < 115  # ground and its noise


def test_held_out_pairs_do_not_depend_on_their_order():
    known, unseen = (
        {frozenset(parted(scene.caption)[::2]) for scene in generate_scenes(1000, 0, part=part)}
        for part in ("seen", "unseen")
    )
    assert not known & unseen
    assert len(unseen) > 60
    assert all(pair <= set().union(*known) for pair in unseen)


def test_held_out_pairs_and_objects_are_not_in_training_scenes():
    known, aside = list_objects()
    assert not set(known) & set(aside)
    assert len(known) + len(aside) == len(COLORS) * len(SHAPES)
    assert {c for c, _ in aside} == set(COLORS)
    for shape in {s for _, s in aside}:
        assert sum(s == shape for _, s in known) >= 4
    seen = [parted(scene.caption)[::2] for scene in generate_scenes(600, 0)]
    assert not {thing for pair in seen for thing in pair} & set(aside)
    assert not any(is_held_out_pair(*pair) for pair in seen)
    for scene in generate_scenes(50, 0, part="unseen"):
        pair = parted(scene.caption)[::2]
        assert is_held_out_pair(*pair)
        assert set(pair) <= set(known)
    for scene in generate_scenes(50, 0, part="novel"):
        assert set(parted(scene.caption)[::2]) & set(aside)
    for thing in known:  # each thing can be learnt in each place
        assert 0 < sum(is_held_out_pair(thing, other) for other in known) < len(known)
        assert 0 < sum(is_held_out_pair(other, thing) for other in known) < len(known)


def test_same_seed_same_scenes():
    first, again, other = generate_scenes(5, 2), generate_scenes(5, 2), generate_scenes(5, 3)
    assert all((a.image == b.image).all() and a.caption == b.caption for a, b in zip(first, again, strict=True))
    assert any(a.caption != b.caption for a, b in zip(first, other, strict=True))


def test_too_small_is_an_error():
    with pytest.raises(UserError, match="32 pixels"):
        generate_scenes(1, 0, size=16)
    with pytest.raises(UserError, match="unknown part"):
        generate_scenes(1, 0, part="unsen")

"""Runs of `translate` in Python: train, load, translate, align, evaluate."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from regard.config.messages import collect_messages
from regard.data import parallel_text
from regard.data.tokenizer import BOS, EOS
from regard.errors import UserError
from regard.models import transformer
from regard.tasks.translate.alignment import (
    align_pairs,
    align_words,
    format_pharaoh,
    record_cross_attention,
    target_word_ids,
    text_word_ids,
)
from regard.tasks.translate.metrics import compute_metrics
from regard.tasks.translate.objective import TranslateObjective, collate, next_token_logits
from regard.tasks.translate.run import encode_sources

WORDS = {"dog": "Hund", "cat": "Katze", "house": "Haus", "red": "rot", "old": "alt", "sees": "sieht", "a": "ein"}
QUIET = {"progress": False}
SMALL = {
    "model": {"dim": 32, "hidden": 48, "layers": 2, "heads": 2, "dropout": 0.0},
    "tokenizer": {"vocab_size": 300},
    "train": {"lr": 0.005},
}
RNN = {"model": {"dim": 32, "hidden": 48, "dropout": 0.0}, "train": {"lr": 0.01}}


def write(folder, count=200, seed=0):
    random = np.random.default_rng(seed)
    rows = [random.choice(list(WORDS), random.integers(2, 6)).tolist() for _ in range(count)]
    (folder / "train.en").write_text("".join(f"{' '.join(row)}\n" for row in rows))
    (folder / "train.de").write_text("".join(f"{' '.join(WORDS[word] for word in row)}\n" for row in rows))
    return [folder / "train.en", folder / "train.de"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Translators that translate word by word, one of each kind."""
    folder = tmp_path_factory.mktemp("trained")
    files = write(folder, 600)
    runs = {}
    for name, settings, how in (
        ("transformer", SMALL, {}),
        ("rnn", RNN, {"model": "rnn"}),
        ("fed", {**RNN, "model": {**RNN["model"], "input_feeding": True, "mechanism": "bilinear"}}, {"model": "rnn"}),
    ):
        settings = {**settings, "data": {"batch_tokens": 256}, "label_smoothing": 0.0, "tokenizer": {"kind": "spaces"}}
        runs[name] = regard.train("translate", files, epochs=12, settings=settings, out=folder / name, **how, **QUIET)
    return runs


TEXTS = ["a red dog", "old cat sees a house", "red house"]
TRANSLATIONS = ["ein rot Hund", "alt Katze sieht ein Haus", "rot Haus"]


@pytest.mark.parametrize("name", ["transformer", "rnn", "fed"])
def test_learned_pairs_are_translated_and_aligned(trained, name):
    run = trained[name]
    found = run.translate([*TEXTS, "", "  "], align=True)
    assert [one.text for one in found] == [*TRANSLATIONS, "", ""]
    if name != "transformer":  # a Transformer of two layers need not align
        assert [one.alignment for one in found[:3]] == [[(i, i) for i in range(len(t.split()))] for t in TEXTS]
    assert found[3].alignment == []
    assert run.translate("a red dog").text == "ein rot Hund"


@pytest.mark.parametrize("name", ["transformer", "rnn"])
def test_a_loaded_run_translates_the_same(trained, name):
    run = trained[name]
    again = regard.load(run.folder)
    assert [t.as_dict() for t in again.translate(TEXTS)] == [t.as_dict() for t in run.translate(TEXTS)]
    assert again.metrics == run.metrics
    assert run.metrics["accuracy"] > 0.9


@pytest.mark.parametrize("name", ["transformer", "fed"])
def test_recorded_attention_equals_that_of_the_decoding_steps(trained, name):
    """The decoder that reads the whole translation has the weights of the steps, row t for token t + 1."""
    run = trained[name]
    source, _ = encode_sources(["old cat sees a house"], run.tokenizer, 100)
    target = run.batch_translator().translate(source, max_length=20)[0][0].ids
    whole = record_cross_attention(run, source, [target])[0]
    from regard.inspect import record

    for layer, weights in whole.items():
        with torch.no_grad(), record(run.model, layer) as recording:
            if name == "fed":
                context, state = run.model.project_source(run.model.encode(torch.tensor(source)))
                for t, word in enumerate([BOS, *target[:-1]]):
                    _, state = run.model.step(torch.tensor([word]), context, state, t)
            else:
                context, cache = run.model.project_source(run.model.encode(torch.tensor(source))), None
                for word in [BOS, *target[:-1]]:
                    _, cache = run.model.step(torch.tensor([[word]]), cache, context)
        steps = torch.cat([call.weights for call in recording.calls_of(layer)], 2)[0].numpy()
        np.testing.assert_allclose(steps, weights, atol=1e-5)


def test_evaluate_computes_metrics_with_and_without_letter_case(trained, tmp_path):
    run = trained["transformer"]
    (tmp_path / "a").write_text("a red dog sees a cat\n\nold cat\n")
    (tmp_path / "b").write_text("ein rot hund sieht ein Katze\n\nalt Katze\n")
    found = run.evaluate(tmp_path / "a", tmp_path / "b")
    assert found["rows"] == 3
    assert found["exact"] == pytest.approx(2 / 3)
    assert found["bleu_lc"] > found["bleu"]
    assert found["ter_lc"] == 0 < found["ter"]
    assert "case:lc" in found["signatures"]["bleu_lc"]
    assert "case:mixed" in found["signatures"]["bleu"]
    assert "tok:13a" in found["signatures"]["bleu"]
    assert found["loss_rows"] == 2
    (tmp_path / "c").write_text("one\n")
    with pytest.raises(UserError, match=r"has 3 lines and .* has 1"):
        run.evaluate(tmp_path / "a", tmp_path / "c")


def test_the_loss_is_computed_on_pairs_that_are_not_too_long(trained, tmp_path):
    run, (a, b) = trained["transformer"], (tmp_path / name for name in ("a", "b"))
    long = "dog " * 300
    a.write_text(f"old cat\n\n{long}\n")
    b.write_text(f"alt Katze\n\n{long}\n")
    with collect_messages() as messages:
        found = run.evaluate(a, b, beam=1)
    assert (found["rows"], found["loss_rows"]) == (3, 1)
    assert "1 of 3 pairs have a side of more than 256 tokens and are left out of the loss" in messages
    a.write_text("old cat\n")
    b.write_text("alt Katze\n")
    alone = run.evaluate(a, b, beam=1)
    assert "loss_rows" not in alone
    assert found["loss"] == pytest.approx(alone["loss"])
    b.write_text(f"{long}\n")
    found = run.evaluate(a, b, beam=1)
    assert found["loss_rows"] == 0
    assert "bleu" in found
    assert "loss" not in found


def test_reference_alignments_are_found_and_bad_ones_are_an_error(trained, tmp_path):
    run, (a, b, links) = trained["rnn"], (tmp_path / name for name in ("a", "b", "links"))
    a.write_text("\n".join(TEXTS) + "\n")
    b.write_text("\n".join(TRANSLATIONS) + "\n")
    links.write_text("0-0 1-1 2-2\n0-0 1-1\n0-0\n")
    assert run.evaluate(a, b, alignments=links)["aligned"] == 1.0
    links.write_text("0-1 1-1 2-0\n4-0\n\n")
    assert run.evaluate(a, b, alignments=links)["aligned"] == 0.25
    links.write_text("0-0\n")
    with pytest.raises(UserError, match="1 lines of alignments for 3 pairs"):
        run.evaluate(a, b, alignments=links)
    links.write_text("0-0\n0:0\n\n")
    with pytest.raises(UserError, match="line 2"):
        run.evaluate(a, b, alignments=links)


def test_metrics_are_those_of_sacrebleu():
    import sacrebleu

    outputs, references = ["The cat sat on the mat .", "A dog runs"], ["the cat sat on a mat .", "a dog runs fast"]
    metrics = compute_metrics(outputs, references)
    assert metrics["bleu"] == sacrebleu.corpus_bleu(outputs, [references]).score
    assert metrics["bleu_lc"] == sacrebleu.corpus_bleu(outputs, [references], lowercase=True).score
    assert metrics["chrf"] == sacrebleu.corpus_chrf(outputs, [references]).score
    assert metrics["ter_lc"] == sacrebleu.corpus_ter(outputs, [references]).score


def test_long_sources_are_truncated_and_reported(trained):
    run = trained["transformer"]
    with collect_messages() as messages:
        found = run.translate_all(["dog " * 5000, "old cat"], beam=2, max_new_tokens=5)
    assert messages == ["1 of 2 sources were truncated to 256 tokens"]
    assert [one.truncated for one in found] == [True, False]
    assert found[1].text == "alt Katze"
    assert run.translate("\u4f60\u597d \U0001f600").source == "\u4f60\u597d \U0001f600"  # unknown words


def test_resume_and_a_validation_file(tmp_path):
    files, settings = write(tmp_path, 60), {**SMALL, "data": {"batch_tokens": 256, "bleu": 4}}
    options = {"valid": files, "settings": settings, "out": tmp_path / "run", **QUIET}
    run = regard.train("translate", files, steps=4, **options)
    assert run.config["data"]["valid"]["rows"] == 60
    assert {"bleu_lc", "loss", "perplexity"} <= set(run.metrics)
    assert "bleu" not in run.metrics  # which is with letter case
    again = regard.train("translate", out=tmp_path / "run", resume=True, **QUIET)
    assert again.metrics == run.metrics
    tuned = regard.train("translate", files, warm_start=run.folder, steps=1, out=tmp_path / "tuned", **QUIET)
    assert tuned.config["warm_start"]["new"] == []


def test_a_seed_gives_the_same_weights_and_pairs_of_one_source_stay_together(tmp_path):
    files = write(tmp_path, 40)
    for name in ("a", "b"):
        regard.train("translate", files, steps=2, settings=SMALL, out=tmp_path / name, **QUIET)
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()
    from regard.tasks.translate.dataset import split_pairs

    texts = parallel_text.ParallelTexts(["x", "y", "x", "z", "y"] * 3, list("abcde") * 3, [], "")
    train, valid = split_pairs(texts, 0.3, 0)
    assert not set(train.sources) & set(valid.sources)
    assert len(train.sources) + len(valid.sources) == 15


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label_smoothing": 1.0}, "smoothing"),
        ({"model": {"vocab_size": 7}}, "unknown setting"),
        ({"model": {"positions": "learned:length=100"}}, "learned:length=257"),
        ({"data": {"max_tokens": 0}}, "max_tokens"),
        ({"model": {"name": "rnn", "positions": "rotary"}}, "no setting 'positions'"),
        ({"model": {"name": "rmn"}}, "did you mean 'rnn'"),
    ],
)
def test_invalid_settings_are_an_error(tmp_path, settings, message):
    with pytest.raises(UserError, match=message):
        regard.train("translate", write(tmp_path, 5), settings=settings, out=tmp_path / "run", **QUIET)


def test_batches_shift_the_target_and_count_tokens():
    from regard.data import tokenizer

    texts = parallel_text.ParallelTexts(["a b c", "a"], ["x y", "x y z"], [], "")
    words = tokenizer.train_tokenizer([*texts.sources, *texts.targets], "spaces", 50)
    batch = collate(parallel_text.encode_pairs(texts, words), np.array([0, 1]))
    assert batch.source.tolist()[1][1:] == [EOS, 0, 0]
    assert batch.target[:, 0].tolist() == [BOS, BOS]
    assert batch.counts == {"words": 7.0}
    assert batch.tokens == 4 + 2 + 7
    flat = batch.next_ids.tolist()
    assert flat[2] == flat[-1] == EOS
    assert batch.target[1].tolist()[1:] == flat[3:6]
    assert batch.target.flatten()[batch.logits_at].tolist() == [BOS, *flat[:2], BOS, *flat[3:6]]


def test_the_loss_equals_the_formula_and_ignores_padding():
    torch.manual_seed(0)
    from regard.data import tokenizer

    texts = parallel_text.ParallelTexts(["a b c", "a"], ["x y", "x y z"], [], "")
    words = tokenizer.train_tokenizer([*texts.sources, *texts.targets], "spaces", 50)
    both = parallel_text.encode_pairs(texts, words)
    model = transformer.TransformerConfig(dim=8, hidden=8, layers=1, heads=1).build(words.vocab_size).eval()
    objective = TranslateObjective(both, both, batch_tokens=64, seed=0, label_smoothing=0.1)
    batch = objective.batch(np.array([0, 1]), 0)
    log_probs = next_token_logits(model, batch).log_softmax(-1)
    nats = -log_probs.gather(1, batch.next_ids[:, None]).sum()
    expected = 0.9 * nats - 0.1 * log_probs.mean(-1).sum()
    assert objective.loss(model, batch)["words"].sum.item() == pytest.approx(expected.item(), rel=1e-5)
    parts = [objective.loss(model, objective.batch(np.array([i]), 0))["words"].sum.item() for i in (0, 1)]
    assert sum(parts) == pytest.approx(expected.item(), rel=1e-5)
    assert objective.evaluate(model)["loss"] == pytest.approx(nats.item() / 7, rel=1e-5)


def test_word_ids_of_tokens_and_alignment():
    from regard.data import tokenizer

    words = tokenizer.train_tokenizer([" der Hund der Katze"] * 3, "bpe", 290)
    ids = words.encode(" der Katzenhund der").ids
    [numbers] = text_word_ids(["der Katzenhund der"], words)
    assert target_word_ids([ids], words) == [numbers]
    assert text_word_ids(["der Katzenhund der", ""], words, 2) == [numbers[:2], []]
    assert numbers == sorted(numbers)
    assert set(numbers) == {0, 1, 2}
    for number, word in enumerate(("der", "Katzenhund", "der")):
        assert words.decode([i for i, n in zip(ids, numbers, strict=True) if n == number]).strip() == word
    weights = np.array([[0.1, 0.2, 0.6], [0.4, 0.5, 0.0]])
    assert align_words(weights, [0, 0, 1], [0, 1]) == [(1, 0), (0, 1)]
    assert align_words(weights, [0, 0, 1], [0, 0]) == [(0, 0)]  # a word has the weight of all its tokens
    assert format_pharaoh([(1, 0), (0, 1)]) == "0-1 1-0"


def test_words_of_tokens_that_are_words_or_characters():
    from regard.data import tokenizer

    dates = tokenizer.train_tokenizer(["Saturday, May 2, 1987"], "words", 50)
    assert text_word_ids(["Saturday, May 2, 1987", "2 , May"], dates) == [[0, 0, 1, 2, 2, 3], [0, 1, 2]]
    assert text_word_ids(["Sunday, May"], dates) == [[0, 0, 1]]  # an unknown word has its offsets
    ids = dates.encode("Saturday, May").ids
    assert parallel_text.decode_line(ids, dates) == "saturday , may"
    assert target_word_ids([ids], dates) == [[0, 1, 2]]
    letters = tokenizer.train_tokenizer(["ab c"], "chars", 50)
    assert text_word_ids(["ab c", "xy zc a", "x a"], letters) == [[0, 0, 1, 1], [0, 0, 1, 1, 1, 2, 2], [0, 1, 1]]
    assert target_word_ids([letters.encode(text).ids for text in ("xy zc a", "x a")], letters) == [
        [0, 0, 1, 1, 1, 2, 2],
        [0, 1, 1],
    ]
    spaces = tokenizer.train_tokenizer(["ab c ."], "spaces", 50)
    assert text_word_ids(["ab  x , c."], spaces) == [[0, 1, 2, 3]]
    assert target_word_ids([spaces.encode("ab x c").ids], spaces) == [[0, 1, 2]]


def test_look_shows_the_source_and_its_translation(trained):
    run = trained["rnn"]
    result = run.look("a red dog")
    assert result.data["text"] == "a red dog\nein rot Hund"
    assert result.data["tokens"][0]["text"].strip() == "a"
    assert "red" in result.html()
    assert "Hund" in result.svg()
    assert 0 < sum(result.data["weights"]) <= 1.0001
    assert align_pairs(run, [[EOS]], [[]], [[]], [[]]) == [[]]


def test_the_base_model_of_the_paper_has_63_million_parameters():
    """recipes/transformer-base.yaml with a vocabulary of 37,000, counted part by part."""
    from pathlib import Path

    from regard.config.settings import load_settings
    from regard.layers import FeedForward, MultiHeadAttention
    from regard.tasks.build_settings import build_settings

    tree = load_settings(Path(__file__).parent.parent.parent / "recipes" / "transformer-base.yaml")
    settings = build_settings("translate", {k: v for k, v in tree.items() if k != "task"})
    with torch.device("meta"):
        model = settings.model.build(settings.tokenizer.vocab_size)
    attentions = [m.cost(30).params for m in model.modules() if isinstance(m, MultiHeadAttention)]
    assert len(attentions) == 6 + 2 * 6
    assert set(attentions) == {4 * 512 * 512 + 4 * 512}
    feeds = [sum(p.numel() for p in m.parameters()) for m in model.modules() if isinstance(m, FeedForward)]
    assert sum(feeds) == 12 * (2 * 512 * 2048 + 2048 + 512)
    norms = sum(p.numel() for m in model.modules() if isinstance(m, torch.nn.LayerNorm) for p in m.parameters())
    assert norms == (6 * 2 + 6 * 3) * 2 * 512
    words = 37_000 * 512
    total = sum(attentions) + sum(feeds) + norms + words
    assert round(total / 1e6, 1) == 63.1
    assert sum(p.numel() for p in model.parameters()) == total + 37_000  # and the bias of the head

"""Text classifiers: the contract, their equations, training for seconds, and attention maps."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.read_table import Table
from regard.errors import UserError
from regard.inspect import AttentionMap, attention_maps, find_attention_layers, record, token_attribution
from regard.layers import hop_penalty
from regard.models import bilstm, context_han, gated_cnn, han, kim_cnn, nb_svm, self_attentive, strided_cnn
from regard.tasks.base_run import Run
from regard.tasks.train import train
from regard.testing import check_model

VOCAB, CLASSES = 31, 3

NETS = {
    "self-attentive": self_attentive.SelfAttentiveConfig(13, 7, 11, hops=3, penalty=0.5, features=5),
    "self-attentive, no penalty": self_attentive.SelfAttentiveConfig(13, 7, 11, hops=3, penalty=0.0, features=5),
    "bilstm, last": bilstm.BiLSTMConfig(13, 7, 2, pool="last"),
    "bilstm, attention": bilstm.BiLSTMConfig(13, 7, pool="attention"),
    "cnn": strided_cnn.StridedCNNConfig(13, layers=3),
    "cnn, narrow": strided_cnn.StridedCNNConfig(13, layers=2, kernel_size=2),
    "kim-cnn": kim_cnn.KimCNNConfig(13, 7),
    "gated-cnn": gated_cnn.GatedCNNConfig(13, layers=3),
    "context-han": context_han.ContextHANConfig(13, 7, 11),
}
ATTENTIVE = ["gated-cnn", "self-attentive", "bilstm, attention", "context-han"]


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def batch(*lengths: int) -> tuple[Tensor, Tensor, Tensor]:
    """ids, mask and sentences of five words."""
    n = max(lengths)
    mask = torch.arange(n) < torch.tensor(lengths)[:, None]
    return torch.randint(6, VOCAB, mask.shape) * mask, mask, (torch.arange(n) // 5).expand(len(lengths), -1)


@pytest.mark.parametrize("name", NETS)
def test_classifiers_keep_the_contract(name: str):
    check_model(NETS[name].build(VOCAB, CLASSES), *batch(19, 13, 7))


@pytest.mark.parametrize("name", NETS)
def test_a_document_of_one_word_does_not_depend_on_the_batch(name: str):
    model = NETS[name].build(VOCAB, CLASSES).eval()
    ids, mask, sentences = batch(1, 17)
    together = model(ids, mask, sentences).logits
    alone = model(ids[:1, :1], mask[:1, :1], sentences[:1, :1]).logits
    torch.testing.assert_close(together[:1], alone)


@pytest.mark.parametrize("name", NETS)
def test_a_batch_without_a_word_is_finite(name: str):
    ids, mask, sentences = batch(3, 3)
    assert NETS[name].build(VOCAB, CLASSES)(ids, mask & False, sentences).logits.isfinite().all()


@pytest.mark.parametrize("config", [han.HANConfig(13, 7, 11), context_han.ContextHANConfig(13, 7, 11)])
def test_gaps_in_sentence_numbers_do_not_matter(config):
    """Sentences numbered 0, 3, 4 are those numbered 0, 1, 2."""
    model = config.build(VOCAB, CLASSES).eval()
    ids, mask, sentences = batch(13, 11)
    gaps = torch.where(sentences > 0, sentences + 2, sentences)
    torch.testing.assert_close(model(ids, mask, gaps).logits, model(ids, mask, sentences).logits, rtol=0, atol=0)


# the equations


def test_a_strided_convolution_follows_its_equation():
    layer = strided_cnn.StridedConv(3, 3)
    with torch.no_grad():
        layer.bias.normal_()
    x = torch.randn(2, 7, 3)
    expected = torch.zeros(2, 4, 3)
    for t in range(4):
        for dt in range(3):
            if 2 * t + dt < 7:
                expected[:, t] += x[:, 2 * t + dt] @ layer.weight[dt]
    torch.testing.assert_close(layer(x), torch.relu(expected - layer.bias))


def test_documents_shorter_than_the_strided_cnn():
    """With more layers than a document can be halved, the result does not depend on the batch."""
    model = strided_cnn.StridedCNNConfig(5, layers=6).build(VOCAB, CLASSES).eval()
    ids, mask, sentences = batch(3, 40)
    torch.testing.assert_close(
        model(ids, mask, sentences).logits[:1], model(ids[:1, :3], mask[:1, :3], sentences[:1, :3]).logits
    )


def test_kim_cnn_takes_the_maximum_over_windows_with_a_word():
    model = kim_cnn.KimCNNConfig(5, filters=4, kernel_sizes="3", dropout=0.0).build(VOCAB, CLASSES)
    ids, mask, _ = batch(2, 6)
    x = F.pad(model.embedding(ids[:1, :2]), (0, 0, 2, 2))[0]  # two words, two zeros on either side
    (window,) = model.convs
    assert isinstance(window, torch.nn.Conv1d)
    assert window.bias is not None
    c = torch.stack([torch.relu((window.weight * x[i : i + 3].T).sum((1, 2)) + window.bias) for i in range(4)])
    torch.testing.assert_close(model(ids, mask).logits[0], model.head(c.amax(0)))


@pytest.mark.parametrize("kernel_sizes", ["", "3,x", "0"])
def test_invalid_kernel_sizes_are_errors(kernel_sizes: str):
    with pytest.raises(UserError, match="such as 3,4,5"):
        kim_cnn.KimCNNConfig(kernel_sizes=kernel_sizes).build(VOCAB, CLASSES)


def test_last_states_of_both_directions():
    model = bilstm.BiLSTMConfig(13, 7, pool="last", dropout=0.0).build(VOCAB, CLASSES)
    ids, mask, _ = batch(4, 9)
    x = model.embedding(ids[:1, :4])
    _, (forward_state, _) = model.rnn.forward_rnn(x)
    _, (backward_state, _) = model.rnn.backward_rnn(x.flip(1))
    torch.testing.assert_close(
        model(ids, mask).logits[:1], model.head(torch.cat((forward_state[0], backward_state[0]), -1))
    )


def test_an_unknown_pooling_is_an_error():
    with pytest.raises(UserError, match="did you mean 'attention'"):
        bilstm.BiLSTMConfig(pool="atention").build(VOCAB, CLASSES)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (strided_cnn.StridedCNNConfig(dim=0), "cnn: dim must be at least 1, not 0"),
        (context_han.ContextHANConfig(embed=-1), "context-han: embed must be at least 1, not -1"),
        (context_han.ContextHANConfig(hidden=0), "context-han: hidden must be at least 1, not 0"),
        (context_han.ContextHANConfig(attention=0), "context-han: attention must be at least 1, not 0"),
    ],
)
def test_a_size_below_one_is_an_error_of_the_model(config, message: str):
    with pytest.raises(UserError, match=message):
        config.build(VOCAB, CLASSES)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("smoothing", [0.0, -1.0, float("nan"), float("inf")])
def test_invalid_smoothing_of_nb_svm_is_an_error(smoothing: float):
    with pytest.raises(UserError, match=f"smoothing must be more than 0, not {smoothing}"):
        nb_svm.NBSVMConfig(smoothing=smoothing).fit(["good tea", "bad tea"], np.array([0, 1]), 2, 0)


def test_the_penalty_is_computed_from_the_attention_weights():
    model, (ids, mask, _) = NETS["self-attentive"].build(VOCAB, CLASSES).eval(), batch(11, 4)
    with record(model) as seen:
        total, weight = model(ids, mask).terms["penalty"]
    a = seen["pool.attend"][:, 0]
    assert a.shape == (2, 3, 11)
    assert not a[1, :, 4:].any()
    assert weight == 0.5
    torch.testing.assert_close(total, ((a @ a.transpose(1, 2) - torch.eye(3)) ** 2).sum())
    assert NETS["self-attentive, no penalty"].build(VOCAB, CLASSES)(ids, mask).terms == {}


def test_context_han_follows_its_equations():
    """Three sentences of two, one and three words, computed with loops."""
    model = context_han.ContextHANConfig(13, 7, 11, dropout=0.0).build(VOCAB, CLASSES)
    ids = torch.randint(6, VOCAB, (1, 6))
    sentences = torch.tensor([[0, 0, 1, 2, 2, 2]])
    h = [
        model.word_rnn(model.embedding(ids[:, sentences[0] == i]), (sentences == i).sum(1))[0] for i in range(3)
    ]  # (words, 14) of each

    def pool_in_order(pool: context_han.ContextPooling, order: list[int]) -> dict[int, Tensor]:
        done: dict[int, Tensor] = {}
        for i in order:
            c = torch.stack(list(done.values())).mean(0) if done else torch.zeros(14)
            gate = torch.sigmoid(pool.gate_word(h[i]) + pool.gate_context(c))
            mixed = gate * pool.word(h[i]) + (1 - gate) * (pool.context.weight @ c) + pool.context.bias
            scores = pool.score(torch.tanh(mixed))[:, 0]
            done[i] = scores.softmax(0) @ h[i]
        return done

    onward, back = pool_in_order(model.forward_pool, [0, 1, 2]), pool_in_order(model.backward_pool, [2, 1, 0])
    s = torch.stack([torch.cat((onward[i], back[i])) for i in range(3)])[None]
    v = model.sentence_pool(model.sentence_rnn(s, torch.tensor([3])))[0][:, 0]
    wanted = model.head(v)
    torch.testing.assert_close(model(ids, torch.ones(1, 6, dtype=torch.bool), sentences).logits, wanted)


def test_only_context_han_attends_depending_on_other_sentences():
    ids, mask, sentences = batch(10, 10)
    other = ids.clone()
    other[:, :5] = ids[:, :5].flip(0)  # another first sentence; the second is the same
    seen = {}
    for config in (han.HANConfig(13, 7, 11), context_han.ContextHANConfig(13, 7, 11)):
        model = config.build(VOCAB, CLASSES).eval()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.3 * torch.randn_like(p))
        for name, words in (("before", ids), ("after", other)):
            with record(model) as recording:
                model(words, mask, sentences)
            for m in attention_maps(recording, 0, {"tokens": 10, "sentences": 2}):
                seen[type(model).__name__, m.layer, name] = m.weights[0]
    plain = [seen["HAN", "word_pool.attend", name] for name in ("before", "after")]
    onward = [seen["ContextHAN", "forward_pool.attend", name] for name in ("before", "after")]
    back = [seen["ContextHAN", "backward_pool.attend", name] for name in ("before", "after")]
    torch.testing.assert_close(plain[0][1], plain[1][1])
    assert (onward[0][1] - onward[1][1]).abs().max() > 1e-3
    torch.testing.assert_close(back[0][1], back[1][1])  # the last sentence has nothing after it


# attention maps


def record_maps(model: torch.nn.Module, n: int = 13) -> list[AttentionMap]:
    ids, mask, sentences = batch(n, n + 4)
    with record(model.eval()) as recording:
        model(ids, mask, sentences)
    return attention_maps(recording, 0, {"tokens": n, "sentences": -(-n // 5), "document": 1})


@pytest.mark.parametrize("name", ATTENTIVE)
def test_attribution_gives_each_token_a_weight(name: str):
    attribution = token_attribution(record_maps(NETS[name].build(VOCAB, CLASSES)))
    assert attribution is not None
    assert attribution.token_weights.shape == (13,)
    torch.testing.assert_close(attribution.token_weights.sum(), torch.tensor(1.0))


def test_attribution_is_the_mean_of_hops_and_of_both_directions():
    (hops,) = record_maps(NETS["self-attentive"].build(VOCAB, CLASSES))
    attribution = token_attribution([hops])
    assert attribution is not None
    torch.testing.assert_close(attribution.token_weights, hops.weights[0].mean(0))
    onward, back, sentences = record_maps(NETS["context-han"].build(VOCAB, CLASSES))
    attribution = token_attribution([onward, back, sentences])
    assert attribution is not None
    assert attribution.sentence_weights is not None
    torch.testing.assert_close(
        attribution.token_weights,
        sentences.weights[0, 0] @ (onward.weights[0] + back.weights[0]) / 2,
        rtol=0,
        atol=1e-6,
    )


# training


_TALK = "we went there on a day in spring and sat by the window with some tea for an hour"
FILLERS = _TALK.split()
GOOD, BAD = ["lovely", "superb", "fine"], ["awful", "dull", "poor"]


@cache
def table(n: int, seed: int) -> Table:
    """Two to four sentences; one word in one of them decides."""
    random, texts, labels = Random(seed), [], []
    for i in range(n):
        words = [[random.choice(FILLERS) for _ in range(random.randint(2, 6))] for _ in range(random.randint(2, 4))]
        sentence = random.choice(words)
        sentence.insert(random.randint(0, len(sentence)), random.choice((BAD, GOOD)[i % 2]))
        texts.append(" ".join(" ".join(s).capitalize() + "." for s in words))
        labels.append(("bad", "good")[i % 2])
    return Table(texts, labels, [], "made here", n)


SMALL = {
    "self-attentive": {"embed": 16, "hidden": 12, "attention": 12, "hops": 3, "penalty": 0.1, "features": 16},
    "bilstm": {"embed": 16, "hidden": 12},
    "cnn": {"dim": 24, "layers": 3},
    "kim-cnn": {"embed": 16, "filters": 8},
    "gated-cnn": {"dim": 16, "layers": 2},
    "context-han": {"embed": 16, "hidden": 12, "attention": 12},
    "nb-svm": {},
}


@pytest.fixture(scope="module", params=SMALL)
def run(request, tmp_path_factory) -> Run:
    threads = torch.get_num_threads()
    return train(
        "classify",
        table(400, 0),
        model=request.param,
        out=tmp_path_factory.mktemp("runs") / request.param,
        epochs=12,
        settings={
            "model": SMALL[request.param],
            "train": {"lr": 0.01, "threads": min(threads, 1)},
            "data": {"batch_tokens": 512},
        },
        progress=False,
    )


def test_learns_in_seconds(run: Run):
    unseen = table(100, 1)
    assert run.evaluate(unseen)["accuracy"] > 0.95


def test_a_loaded_run_gives_the_same_probabilities(run: Run):
    assert run.folder is not None
    texts = [*table(20, 2).texts, "Superb.", "an hour"]
    np.testing.assert_array_equal(Run.load(run.folder).probabilities(texts), run.probabilities(texts))


def test_runs_with_attention_can_be_inspected(run: Run):
    text = "We sat by the window. The tea was superb. It was spring."
    name = run.settings.model_name
    if run.fitted is not None or not find_attention_layers(run.model):
        assert name in ("cnn", "kim-cnn", "nb-svm")
        with pytest.raises(UserError, match=f"'{name}' has no attention"):
            run.look(text)
        return
    data = run.look(text).data
    assert data["prediction"]["label"] == "good"
    heaviest = data["tokens"][int(np.argmax(data["weights"]))]["text"]
    assert abs(sum(data["weights"]) - 1) < 1e-3
    assert len(data["maps"]) == {"context-han": 3}.get(name, 1)
    if name == "context-han":
        assert len(data["sentence_weights"]) == 3
        assert heaviest == "superb"
    assert "<html" in run.look(text, faithful=False).html()


def test_hops_overlap_less_with_the_penalty():
    """Trained alike on the same texts, with and without."""
    random = Random(0)
    good, bad = range(6, 9), range(9, 12)
    rows = [[random.randrange(12, VOCAB) for _ in range(9)] for _ in range(96)]
    for i, row in enumerate(rows):
        row[random.randrange(9)] = random.choice((bad, good)[i % 2])
    ids, labels = torch.tensor(rows), torch.arange(96) % 2
    mask = torch.ones_like(ids, dtype=torch.bool)
    overlap = {}
    for penalty in (0.0, 1.0):
        torch.manual_seed(0)
        model = self_attentive.SelfAttentiveConfig(16, 12, 12, 4, penalty, 16, dropout=0.0).build(VOCAB, 2)
        step = torch.optim.Adam(model.parameters(), 0.01)
        for _ in range(60):
            out = model(ids, mask)
            loss = F.cross_entropy(out.logits, labels) + sum(w * t / len(ids) for t, w in out.terms.values())
            step.zero_grad()
            loss.backward()
            step.step()
        with torch.no_grad(), record(model) as seen:
            right = (model(ids, mask).logits.argmax(1) == labels).float().mean()
        a = seen["pool.attend"]
        overlap[penalty] = ((a[:, 0] @ a[:, 0].transpose(1, 2)).triu(1).sum((1, 2)) / 6).mean().item()
        assert right > 0.95, f"penalty {penalty}: not learned"
        assert hop_penalty(a).mean() < 20
    assert overlap[1.0] < 0.5 * overlap[0.0], overlap


# NB-SVM


def test_nb_svm_weights_follow_the_log_count_ratio():
    """By hand: good, film and bad have p = (3, 2, 1) and q = (1, 2, 3), so that r = (log 3, 0, -log 3): a word of both
    classes alike is silent, however it is fitted."""
    texts, labels = ["good film", "good good", "bad film", "bad"], np.array([1, 1, 0, 0])
    model = nb_svm.NBSVMConfig(ngrams=1, min_df=1).fit(texts, labels, 2, 0)
    at = model.vectorizer.vocabulary_
    assert model.weight[1, at["film"]] == 0
    assert model.weight[1, at["good"]] > 0 > model.weight[1, at["bad"]]
    np.testing.assert_allclose(model.weight[0], -model.weight[1])
    np.testing.assert_allclose(model.probabilities(["good film", "bad film"]).argmax(1), [1, 0])


def test_nb_svm_with_several_classes(tmp_path: Path):
    texts = [f"{word} {filler}" for filler in FILLERS for word in ("red", "green", "blue")]
    labels = np.array([0, 1, 3] * len(FILLERS))  # class 2 has no example
    config = nb_svm.NBSVMConfig()
    model = config.fit(texts, labels, 4, 0)
    probabilities = model.probabilities(["green tea", "blue day", "red", "nothing known?"])
    assert probabilities[:3].argmax(1).tolist() == [1, 3, 0]
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-6)
    assert (probabilities[:, 2] < 1e-6).all()
    for name, content in model.files().items():
        (tmp_path / name).write_bytes(content)
    np.testing.assert_array_equal(config.load(tmp_path).probabilities(texts), model.probabilities(texts))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match="does not hold a complete"):
        config.load(tmp_path)

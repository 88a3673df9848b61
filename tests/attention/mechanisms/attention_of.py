"""What a layer regards, for tests that compare it with plain loops."""

from regard.attention.token_positions import QueryKeyPositions


def weights_of(layer, x, memory, mask=None):
    """The attention weights of a layer."""
    mechanism, q_pos, k_pos = layer.mechanism, range(x.shape[1]), range(memory.shape[1])
    keys, _ = mechanism.project_kv(memory, k_pos)
    return mechanism.score(mechanism.project_query(x, q_pos), keys, QueryKeyPositions(q_pos, k_pos)).weights(mask)

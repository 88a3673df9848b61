"""Attention weights of a layer, for comparison with plain loops."""

from regard.attention.token_positions import QueryKeyPositions


def weights_of(layer, x, context, mask=None):
    """The attention weights of a layer."""
    mechanism, q_pos, k_pos = layer.mechanism, range(x.shape[1]), range(context.shape[1])
    keys, _ = mechanism.project_kv(context, k_pos)
    return mechanism.score(mechanism.project_query(x, q_pos), keys, QueryKeyPositions(q_pos, k_pos)).weights(mask)

//! What different tools call the same tensor. Names become llama.cpp's where a rule says so, without the prefixes that wrappers add; others stay.

/// Prefixes that say who holds a tensor, not which it is.
const PREFIXES: [&str; 12] = [
    "_orig_mod.",
    "module.",
    "base_model.model.",
    "language_model.",
    "text_model.",
    "model.",
    "transformer.",
    "bert.",
    "roberta.",
    "ema_model.",
    "ema.",
    "state_dict.",
];

/// Parts of names behind the number of the layer; the first that fits is taken.
const PARTS: [(&str, &str); 48] = [
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.dense", "attn_output"),
    ("self_attn.out_proj", "attn_output"),
    ("self_attn.qkv_proj", "attn_qkv"),
    ("self_attn.W_pack", "attn_qkv"),
    ("self_attention.query_key_value", "attn_qkv"),
    ("attention.query_key_value", "attn_qkv"),
    ("attention.wqkv", "attn_qkv"),
    ("mlp.dense_h_to_4h", "ffn_up"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.q_a_proj", "attn_q_a"),
    ("self_attn.q_b_proj", "attn_q_b"),
    ("self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"),
    ("self_attn.kv_b_proj", "attn_kv_b"),
    ("attention.self.query", "attn_q"),
    ("attention.self.key", "attn_k"),
    ("attention.self.value", "attn_v"),
    ("attention.output.dense", "attn_output"),
    ("attention.output.LayerNorm", "attn_output_norm"),
    ("attention.wq", "attn_q"),
    ("attention.wk", "attn_k"),
    ("attention.wv", "attn_v"),
    ("attention.wo", "attn_output"),
    ("attention_norm", "attn_norm"),
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("mlp.gate_up_proj", "ffn_up"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("mlp.shared_expert.gate_proj", "ffn_gate_shexp"),
    ("mlp.shared_expert.up_proj", "ffn_up_shexp"),
    ("mlp.shared_expert.down_proj", "ffn_down_shexp"),
    ("mlp.shared_experts.gate_proj", "ffn_gate_shexp"),
    ("mlp.shared_experts.up_proj", "ffn_up_shexp"),
    ("mlp.shared_experts.down_proj", "ffn_down_shexp"),
    ("mlp.gate", "ffn_gate_inp"),
    ("block_sparse_moe.gate", "ffn_gate_inp"),
    ("intermediate.dense", "ffn_up"),
    ("output.dense", "ffn_down"),
    ("output.LayerNorm", "layer_output_norm"),
    ("feed_forward.w1", "ffn_gate"),
    ("feed_forward.w3", "ffn_up"),
];

/// Names outside of the layers.
const WHOLE: [(&str, &str); 9] = [
    ("embed_tokens", "token_embd"),
    ("embeddings.word_embeddings", "token_embd"),
    ("embeddings.position_embeddings", "position_embd"),
    ("embeddings.token_type_embeddings", "token_types"),
    ("embeddings.LayerNorm", "token_embd_norm"),
    ("tok_embeddings", "token_embd"),
    ("wte", "token_embd"),
    ("lm_head", "output"),
    ("norm", "output_norm"),
];

/// The name by which tensors of different files are compared.
pub fn canonical(name: &str) -> String {
    let mut rest = name;
    while let Some(shorter) = PREFIXES.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
        rest = shorter;
    }
    let (stem, kind) = match rest.rsplit_once('.') {
        Some((stem, kind @ ("weight" | "bias"))) => (stem, kind),
        // The matrices of all experts in one parameter.
        Some((stem, matrix @ ("gate_up_proj" | "down_proj"))) if stem.ends_with(".experts") => {
            let layer = stem.strip_prefix("layers.").and_then(|stem| stem.split_once('.'));
            let matrix = if matrix == "down_proj" { "ffn_down_exps" } else { "ffn_gate_up_exps" };
            return layer.map_or(rest.to_owned(), |(layer, _)| format!("blk.{layer}.{matrix}.weight"));
        }
        _ => return rest.to_owned(),
    };
    for layers in ["layers.", "encoder.layer.", "h.", "blk."] {
        let Some((number, part)) = stem.strip_prefix(layers).and_then(|stem| stem.split_once('.')) else {
            continue;
        };
        if number.bytes().all(|digit| digit.is_ascii_digit()) && !number.is_empty() {
            return format!("blk.{number}.{}.{kind}", canonical_part(part));
        }
    }
    let whole = WHOLE.iter().find(|(from, _)| *from == stem).map_or(stem, |(_, to)| to);
    format!("{whole}.{kind}")
}

fn canonical_part(part: &str) -> String {
    if let Some((_, expert)) = part.split_once("experts.")
        && let Some((number, matrix)) = expert.split_once('.')
    {
        let matrix = match matrix {
            "w1" | "gate_proj" => "ffn_gate",
            "w2" | "down_proj" => "ffn_down",
            "w3" | "up_proj" => "ffn_up",
            other => other,
        };
        return format!("{matrix}.{number}");
    }
    match part {
        "feed_forward.w2" => "ffn_down".to_owned(),
        _ => PARTS.iter().find(|(from, _)| *from == part).map_or(part, |(_, to)| to).to_owned(),
    }
}

/// The tensors that a fused one consists of, one after the other; none where it is none.
pub(super) fn parts_of(fused: &str, experts: u64) -> Vec<String> {
    let Some(((layer, part), kind)) =
        fused.rsplit_once('.').and_then(|(stem, kind)| Some((stem.rsplit_once('.')?, kind)))
    else {
        return Vec::new();
    };
    let names = |parts: &[&str]| parts.iter().map(|part| format!("{layer}.{part}.{kind}")).collect();
    match part {
        "attn_qkv" => names(&["attn_q", "attn_k", "attn_v"]),
        "ffn_up" => names(&["ffn_gate", "ffn_up"]),
        "ffn_gate_up_exps" => (0..experts)
            .flat_map(|expert| ["ffn_gate", "ffn_up"].map(|part| format!("{layer}.{part}.{expert}.{kind}")))
            .collect(),
        _ => Vec::new(),
    }
}

/// Fused tensors that one may be a part of, and where it begins there, counted in its own length: from the end where that is negative.
pub(super) fn wholes_of(part: &str) -> Vec<(String, i64)> {
    let Some((stem, kind)) = part.rsplit_once('.') else { return Vec::new() };
    let Some((layer, name)) = stem.rsplit_once('.') else { return Vec::new() };
    let of = |name: &str, place| vec![(format!("{layer}.{name}.{kind}"), place)];
    if let (Ok(expert), Some((layer, matrix))) = (name.parse::<u16>(), layer.rsplit_once('.')) {
        let expert = i64::from(expert);
        let mut wholes = vec![(format!("{layer}.{matrix}_exps.{kind}"), expert)];
        if let "ffn_gate" | "ffn_up" = matrix {
            let place = 2 * expert + i64::from(matrix == "ffn_up");
            wholes.push((format!("{layer}.ffn_gate_up_exps.{kind}"), place));
        }
        return wholes;
    }
    match name {
        "attn_q" => of("attn_qkv", 0),
        "attn_k" => of("attn_qkv", -2),
        "attn_v" => of("attn_qkv", -1),
        "ffn_gate" => of("ffn_up", 0),
        "ffn_up" => of("ffn_up", -1),
        _ => Vec::new(),
    }
}

/// Of a tensor with the matrices of all experts, what the one of each expert is called.
pub(super) fn of_expert(stacked: &str, expert: u64) -> Option<String> {
    let (matrix, kind) = stacked.rsplit_once('.')?;
    Some(format!("{}.{expert}.{kind}", matrix.strip_suffix("_exps")?))
}

/// The numbers in a name: relatives have the same ones.
pub(super) fn numbers(name: &str) -> Vec<&str> {
    name.split(|letter: char| !letter.is_ascii_digit()).filter(|digits| !digits.is_empty()).collect()
}

/// How many letters two names have in common at their ends: `model.layer.weight` and `ema.layer.weight`.
pub(super) fn alike(one: &str, other: &str) -> usize {
    one.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_conventions_meet() {
        for (theirs, ours) in [
            ("model.layers.12.self_attn.q_proj.weight", "blk.12.attn_q.weight"),
            ("model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight"),
            ("model.embed_tokens.weight", "token_embd.weight"),
            ("lm_head.weight", "output.weight"),
            ("model.norm.weight", "output_norm.weight"),
            ("encoder.layer.3.attention.self.query.bias", "blk.3.attn_q.bias"),
            ("model.layers.5.block_sparse_moe.experts.7.w2.weight", "blk.5.ffn_down.7.weight"),
            ("blk.5.ffn_down.7.weight", "blk.5.ffn_down.7.weight"),
            ("module.odd.name", "odd.name"),
            ("model.layers.3.mlp.experts.gate_up_proj", "blk.3.ffn_gate_up_exps.weight"),
            ("model.layers.3.mlp.experts.down_proj", "blk.3.ffn_down_exps.weight"),
        ] {
            assert_eq!(canonical(theirs), ours);
        }
        assert_eq!(of_expert("blk.5.ffn_down_exps.weight", 7).unwrap(), "blk.5.ffn_down.7.weight");
        assert_eq!(of_expert("blk.5.ffn_down.weight", 7), None);
        assert_eq!(numbers("model.layers.12.w2.x"), ["12", "2"]);
    }

    #[test]
    fn parts_and_wholes_of_fused_tensors() {
        assert_eq!(
            parts_of("blk.1.attn_qkv.bias", 0),
            ["blk.1.attn_q.bias", "blk.1.attn_k.bias", "blk.1.attn_v.bias"]
        );
        let of_experts = parts_of("blk.1.ffn_gate_up_exps.weight", 2);
        assert_eq!(of_experts[1..3], ["blk.1.ffn_up.0.weight", "blk.1.ffn_gate.1.weight"]);
        assert!(parts_of("blk.1.ffn_down.weight", 0).is_empty() && parts_of("x", 1).is_empty());
        assert_eq!(wholes_of("blk.1.attn_k.bias"), [("blk.1.attn_qkv.bias".to_owned(), -2)]);
        let whole = |name: &str, place| (format!("blk.1.{name}.weight"), place);
        assert_eq!(
            wholes_of("blk.1.ffn_up.7.weight"),
            [whole("ffn_up_exps", 7), whole("ffn_gate_up_exps", 15)]
        );
        assert!(wholes_of("blk.1.attn_output.weight").is_empty() && wholes_of("x").is_empty());
    }
}

//! The forms of models.

use super::fields::{Bytes, Plane};
use super::{Forms, WIDTHS};

/// What the blocks of a model depend on.
pub struct Walked {
    pub tag: u8,
    /// Of model 9: how the classes of chunks are coded.
    pub classes: Option<Plane>,
    /// Of model 10: elements of a row.
    pub row: usize,
}

/// Walks a model of so many elements of a dtype.
pub fn walk(bytes: &mut Bytes, dtype: u8, elements: usize, forms: &mut Forms) -> Walked {
    let tag = bytes.u8();
    assert!(tag < 16, "a model {tag}");
    forms.insert(format!("model {tag}"));
    let mut walked = Walked { tag, classes: None, row: 0 };
    let width = WIDTHS[usize::from(dtype)];
    match tag {
        0 | 1 => {}
        2 => float(bytes, width, elements, forms),
        3 => {
            forms.insert(format!("planes lowest plane {}", bytes.0[0]));
            bytes.plane_models(width, forms);
        }
        4 => {
            let parts = bytes.scales(elements, forms);
            forms.insert(format!("fast scales {parts}"));
        }
        5 => palette(bytes, elements, forms),
        6 => {
            let by_columns = bytes.varint() == 0;
            forms.insert(format!("grid by {}", if by_columns { "columns" } else { "rows" }));
            if by_columns {
                bytes.varint();
            }
        }
        7 | 8 => inner(tag, bytes, dtype, elements, forms),
        9 => walked.classes = Some(reference(bytes, forms)),
        10 => walked.row = adaptive(bytes, width, elements, forms),
        11 => {
            let flags = bytes.u8();
            forms.insert(format!("subnormal signs {}", flags & 3));
            forms.insert(format!("subnormal contexts {}", 1 << (flags >> 2)));
            bytes.scales(elements, forms);
            bytes.varint();
            bytes.tables(1 << (flags >> 2));
        }
        12 => {
            let source = bytes.u8();
            forms.insert(format!("cast from dtype {source}"));
            forms.insert(format!("cast from dtype {source} to dtype {dtype}"));
            if matches!(source, 9 | 11) {
                bytes.u8();
            }
            inner(tag, bytes, source, elements, forms);
        }
        13 => records(bytes, elements, forms),
        14 => scaled(bytes, elements, forms),
        _ => given(bytes, forms),
    }
    walked
}

/// The model that another one has for elements of its own.
fn inner(tag: u8, bytes: &mut Bytes, dtype: u8, elements: usize, forms: &mut Forms) {
    forms.insert(format!("model {} in model {tag}", bytes.0[0]));
    walk(bytes, dtype, elements, forms);
}

fn float(bytes: &mut Bytes, width: usize, elements: usize, forms: &mut Forms) {
    let flags = bytes.u8();
    let (signs, contexts, precision) = (flags & 3, flags >> 2 & 1, flags >> 3);
    forms.insert(format!("float signs {signs}"));
    forms.insert(format!("float contexts {contexts}"));
    forms.insert(format!("float precision {precision}"));
    let parts = bytes.scales(elements, forms);
    forms.insert(format!("float scales {parts}"));
    if signs == 3 {
        bytes.u8();
        bytes.plane_model(forms);
    }
    if precision == 0 {
        bytes.take(4);
    } else {
        bytes.tables(if contexts == 1 { 4 } else { 1 });
    }
    tails("float", bytes, width, elements, forms);
}

/// The models of the bytes below the heads.
fn tails(name: &str, bytes: &mut Bytes, width: usize, elements: usize, forms: &mut Forms) {
    if width == 2 {
        return;
    }
    let short = bytes.varint();
    forms.insert(format!("{name} tails {} short rows", if short == 0 { "without" } else { "with" }));
    bytes.plane_models(width - 2, forms);
    if short > 0 {
        bytes.plane_models(width - 2, forms);
        bytes.plane(elements.div_ceil(short).div_ceil(8), forms);
    }
}

fn palette(bytes: &mut Bytes, elements: usize, forms: &mut Forms) {
    let table = bytes.counted_plane(forms);
    forms.insert(format!("palette of {} entries", if table > 512 * 2 { "many" } else { "few" }));
    let code = bytes.0[0];
    forms.insert(format!("palette code {code}"));
    match code {
        3 => {
            bytes.u8();
        }
        4 => {
            bytes.u8();
            scaled(bytes, elements, forms);
        }
        _ => {
            bytes.plane_model(forms);
        }
    }
    bytes.plane_model(forms);
}

/// Returns how classes are coded.
fn reference(bytes: &mut Bytes, forms: &mut Forms) -> Plane {
    forms.insert(format!("reference {} decay", if bytes.varint() == 0 { "without" } else { "with" }));
    bytes.varint();
    let classes = bytes.u16();
    forms.insert(format!("reference {} symbols", if classes == 0 { "without" } else { "with" }));
    if classes > 0 {
        let contexts = usize::from(bytes.u8());
        forms.insert(format!("reference {}", if contexts == 1 { "one context" } else { "several contexts" }));
        if contexts > 1 {
            bytes.plane(32 * classes.count_ones() as usize, forms);
        }
        bytes.tables(contexts);
    }
    bytes.plane_model(forms)
}

/// Returns the length of rows.
fn adaptive(bytes: &mut Bytes, width: usize, elements: usize, forms: &mut Forms) -> usize {
    let row = bytes.varint();
    let kernel = bytes.varint();
    forms.insert(format!("adaptive {} kernel", if kernel == 0 { "without" } else { "with" }));
    if kernel > 0 {
        bytes.varint();
    }
    bytes.varint();
    let (style, kind) = (bytes.u8() >> 6, bytes.u8());
    forms.insert(format!("adaptive kernel inertia {}", if kind & 7 == 7 { "fixed" } else { "moving" }));
    forms.insert(format!("adaptive style {style}"));
    forms.insert(format!("adaptive signs {}", kind >> 3 & 1));
    forms.insert(format!("adaptive code {}", kind >> 4));
    match kind >> 4 {
        0 => {
            bytes.take(3 + 1);
        }
        1 => {
            bytes.take(3 + 4);
        }
        2 => bytes.tables(8),
        _ => bytes.tables(32),
    }
    tails("adaptive", bytes, width, elements, forms);
    row
}

/// Every field with its arrays and its model.
fn records(bytes: &mut Bytes, length: usize, forms: &mut Forms) {
    let record = bytes.varint();
    let mut fields = Vec::new();
    for _ in 0..bytes.varint() {
        let (dtype, mut count) = (bytes.u8(), 0);
        forms.insert(format!("field of dtype {dtype}"));
        let arrays = bytes.varint();
        forms.insert(format!("field of arrays {arrays}"));
        for _ in 0..arrays {
            let rank = bytes.varint();
            count += (0..rank).map(|_| bytes.varint()).product::<usize>();
            let slices = bytes.varint();
            forms.insert(format!("array of rank {rank} and slices {slices}"));
            for _ in 0..slices {
                bytes.u8();
                bytes.varints(1 + rank);
            }
        }
        fields.push((dtype, count * (length / record)));
    }
    fields.into_iter().for_each(|(dtype, elements)| inner(13, bytes, dtype, elements, forms));
}

fn scaled(bytes: &mut Bytes, elements: usize, forms: &mut Forms) {
    let contexts = 1 << bytes.u8();
    forms.insert(format!("scaled contexts {contexts}"));
    let parts = bytes.scales(elements, forms);
    forms.insert(format!("scaled scales {parts}"));
    bytes.varint();
    bytes.tables(contexts);
}

fn given(bytes: &mut Bytes, forms: &mut Forms) {
    let kind = bytes.u8();
    forms.insert(format!("given kind {kind}"));
    bytes.varints(if kind == 0 { 1 } else { 4 });
    let flags = bytes.u8();
    forms.insert(format!("given contexts {}", 1 << (flags & 7)));
    forms.insert(format!("given precision {}", flags >> 3));
    bytes.varint();
    bytes.varint();
    bytes.tables(1 << (flags & 7));
}

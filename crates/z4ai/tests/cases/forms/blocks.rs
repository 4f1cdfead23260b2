//! The forms of blocks.

use super::fields::Bytes;
use super::models::Walked;
use super::{Forms, WIDTHS};

/// Walks what the first bytes of a coded block of so many elements choose.
pub fn walk(model: &Walked, mut bytes: Bytes, dtype: u8, elements: usize, forms: &mut Forms) {
    match model.tag {
        2 | 11 | 14 => {
            let wide = WIDTHS[usize::from(dtype)] <= 2 && elements >= 98304;
            let states = match elements {
                0..512 => 1,
                512..32768 => 4,
                _ if wide => 64,
                _ => 32,
            };
            forms.insert(format!("model {} with {states} states", model.tag));
        }
        4 => {
            bytes.varint();
            let code = bytes.u8();
            forms.insert(format!("nested spelled {}", code >> 7));
            forms.insert(format!("nested levels {}", code & 0x7f));
            let widths = bytes.u8();
            let two_bits = if widths == 0 { "without" } else { "with" };
            forms.insert(format!("nested {two_bits} levels of two bits"));
        }
        6 => grid(&mut bytes, forms),
        7 => {
            forms.insert(format!("sparse mask plane {}", bytes.0[0]));
            bytes.plane(elements.div_ceil(8), forms);
            let minus_zeros = bytes.counted_plane(forms);
            forms.insert(format!("sparse {} minus zeros", if minus_zeros == 0 { "without" } else { "with" }));
        }
        9 => reference(model, bytes, elements, forms),
        10 => {
            let has_lanes = elements >= 8192 && model.row >= 8 && elements / model.row >= 8;
            forms.insert(format!("adaptive lanes {}", if has_lanes { 8 } else { 1 }));
        }
        12 => {
            let exceptions = if bytes.varint() == 0 { "without" } else { "with" };
            forms.insert(format!("cast {exceptions} exceptions"));
        }
        _ => {}
    }
}

fn grid(bytes: &mut Bytes, forms: &mut Forms) {
    let header = bytes.varint();
    let header = bytes.take(header);
    let (scheme, flag) = (header[0], header[1]);
    forms.insert(format!("grid scheme {scheme}"));
    let meaning = if scheme < 5 { "minus zero" } else { "shared scales" };
    forms.insert(format!("grid {meaning} {flag}"));
    for plane in 0..11 {
        let count = bytes.varint();
        if count > 0 {
            bytes.plane(count, forms);
        }
        if plane == 6 {
            forms.insert(format!("grid {} raw groups", if count == 0 { "without" } else { "with" }));
        }
    }
    assert!(bytes.0.is_empty(), "bytes behind the planes of a grid");
}

fn reference(model: &Walked, mut bytes: Bytes, elements: usize, forms: &mut Forms) {
    let Some(classes) = model.classes else { return };
    bytes.plane_data(classes, elements.div_ceil(256));
    let sets = bytes.varint();
    forms.insert(format!("reference {} sets", if sets == 0 { "without" } else { "with" }));
    bytes.take(sets);
    let lanes = bytes.u8();
    forms.insert(format!("reference lanes {lanes}"));
    if lanes > 0 {
        bytes.rans();
    }
    forms.insert(format!("reference raw lanes {}", bytes.0.first().unwrap_or(&0)));
}

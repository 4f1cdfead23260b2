//! Which forms of the format a frame has, read from its bytes as `spec/z4ai.md` lays them out, without the
//! library.

use std::collections::BTreeSet;

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn varint(&mut self) -> usize {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.u8();
            value |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
}

/// The forms of the header, the sections, the models and the blocks of a valid frame.
pub fn of(frame: &[u8]) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    let mut bytes = Bytes(frame);
    bytes.take(5);
    let (flags, dtype) = (bytes.u8(), bytes.u8());
    forms.insert(format!("dtype {dtype}"));
    if flags & 2 != 0 {
        forms.insert("header with a shape".into());
        let dimensions = bytes.varint();
        (0..dimensions).for_each(|_| {
            bytes.varint();
        });
    } else if flags & 1 != 0 {
        bytes.varint();
    } else {
        forms.insert("header without a length".into());
    }
    if flags & 4 != 0 {
        forms.insert("header with a NumPy dtype".into());
        let length = bytes.varint();
        bytes.take(length);
    }
    if flags & 8 != 0 {
        forms.insert("header with a reference".into());
        bytes.varint();
        bytes.take(16);
    }
    bytes.take(2);
    while !bytes.0.is_empty() {
        let length = bytes.varint();
        let (model, blocks) = match length {
            0 if flags & 1 == 0 => {
                forms.insert("end mark".into());
                continue;
            }
            0 => {
                forms.insert("short section".into());
                let (model, block) = (bytes.varint(), bytes.varint());
                bytes.take(4);
                (bytes.take(model), vec![bytes.take(block)])
            }
            1 => {
                forms.insert("short stored section".into());
                bytes.0 = &[];
                continue;
            }
            _ => long_section(length, &mut bytes, &mut forms),
        };
        model_forms(model, dtype, &mut forms);
        for block in blocks.into_iter().filter(|_| model[0] != 0) {
            forms.insert(format!("block mode {}", block[0]));
            if block[0] == 0 {
                block_forms(model, &block[1..], &mut forms);
            }
        }
    }
    forms
}

fn long_section<'a>(
    length: usize,
    bytes: &mut Bytes<'a>,
    forms: &mut BTreeSet<String>,
) -> (&'a [u8], Vec<&'a [u8]>) {
    let mut originals = length >> 1;
    if length & 1 == 1 {
        forms.insert("section with copies".into());
        for _ in 0..bytes.varint() {
            bytes.varint();
            originals -= bytes.varint();
            bytes.varint();
        }
    }
    let block_length = match bytes.varint() {
        0 => originals,
        several => {
            forms.insert("section of several blocks".into());
            several
        }
    };
    let model_length = bytes.varint();
    let lengths: Vec<usize> = (0..originals.div_ceil(block_length)).map(|_| bytes.varint()).collect();
    bytes.take(4 * lengths.len());
    let model = bytes.take(model_length);
    bytes.take(4);
    (model, lengths.into_iter().map(|length| bytes.take(length)).collect())
}

/// The tag of the model, and what its first bytes choose.
fn model_forms(model: &[u8], dtype: u8, forms: &mut BTreeSet<String>) {
    let mut bytes = Bytes(model);
    let tag = bytes.u8();
    forms.insert(format!("model {tag}"));
    forms.insert(format!("model {tag} of dtype {dtype}"));
    match tag {
        3 => {
            forms.insert(format!("planes lowest plane {}", bytes.u8()));
        }
        5 => {
            let table = bytes.varint();
            forms.insert(format!("palette of {} entries", if table > 512 * 2 { "many" } else { "few" }));
        }
        9 => reference_forms(bytes, forms),
        2 => {
            let flags = bytes.u8();
            forms.insert(format!("float signs {}", flags & 3));
            forms.insert(format!("float contexts {}", flags >> 2 & 1));
            forms.insert(format!("float precision {}", flags >> 3));
            let parts = scales(&mut bytes);
            forms.insert(format!("float scales {parts}"));
        }
        4 => {
            forms.insert(format!("fast scales {}", scales(&mut bytes)));
        }
        6 => {
            forms.insert(format!("grid by {}", if bytes.varint() == 0 { "columns" } else { "rows" }));
        }
        7 | 8 => {
            forms.insert(format!("model {} in model {tag}", bytes.u8()));
        }
        10 => {
            bytes.varint();
            let kernel = bytes.varint();
            forms.insert(format!("adaptive {} kernel", if kernel == 0 { "without" } else { "with" }));
            if kernel > 0 {
                bytes.varint();
            }
            bytes.varint();
            let (style, kind) = (bytes.u8() >> 6, bytes.u8());
            forms.insert(format!(
                "adaptive kernel inertia {}",
                if kind & 7 == 7 { "fixed" } else { "moving" }
            ));
            forms.insert(format!("adaptive style {style}"));
            forms.insert(format!("adaptive signs {}", kind >> 3 & 1));
            forms.insert(format!("adaptive code {}", kind >> 4));
        }
        11 => {
            let flags = bytes.u8();
            forms.insert(format!("subnormal signs {}", flags & 3));
            forms.insert(format!("subnormal contexts {}", 1 << (flags >> 2)));
        }
        12 => {
            let source = bytes.u8();
            forms.insert(format!("cast from dtype {source}"));
            forms.insert(format!("cast from dtype {source} to dtype {dtype}"));
            if matches!(source, 9 | 11) {
                bytes.u8();
            }
            forms.insert(format!("model {} in model {tag}", bytes.u8()));
        }
        13 => record_forms(&mut bytes, forms),
        14 => {
            forms.insert(format!("scaled contexts {}", 1 << bytes.u8()));
            forms.insert(format!("scaled scales {}", scales(&mut bytes)));
        }
        _ => {}
    }
}

/// What a model of deltas chooses, as far as it can be told without its tables.
fn reference_forms(mut bytes: Bytes, forms: &mut BTreeSet<String>) {
    forms.insert(format!("reference {} decay", if bytes.varint() == 0 { "without" } else { "with" }));
    bytes.varint();
    let classes = u16::from_le_bytes([bytes.u8(), bytes.u8()]);
    forms.insert(format!("reference {} symbols", if classes == 0 { "without" } else { "with" }));
    if classes > 0 {
        let contexts = if bytes.u8() == 1 { "one context" } else { "several contexts" };
        forms.insert(format!("reference {contexts}"));
    }
}

/// The dtypes of the fields of records, how many arrays they have, and the model of the first one.
fn record_forms(bytes: &mut Bytes, forms: &mut BTreeSet<String>) {
    bytes.varint();
    for _ in 0..bytes.varint() {
        forms.insert(format!("field of dtype {}", bytes.u8()));
        let arrays = bytes.varint();
        forms.insert(format!("field of arrays {arrays}"));
        for _ in 0..arrays {
            let rank = bytes.varint();
            (0..rank).for_each(|_| {
                bytes.varint();
            });
            let slices = bytes.varint();
            forms.insert(format!("array of rank {rank} and slices {slices}"));
            for _ in 0..slices {
                bytes.u8();
                (0..=rank).for_each(|_| {
                    bytes.varint();
                });
            }
        }
    }
    forms.insert(format!("model {} in model 13", bytes.u8()));
}

/// Which parts scales have; without any, they are skipped.
fn scales(bytes: &mut Bytes) -> u8 {
    bytes.varint();
    bytes.u8()
}

/// What the first bytes of a coded block choose.
fn block_forms(model: &[u8], block: &[u8], forms: &mut BTreeSet<String>) {
    let mut bytes = Bytes(block);
    match model[0] {
        4 => {
            bytes.varint();
            let code = bytes.u8();
            forms.insert(format!("nested spelled {}", code >> 7));
            forms.insert(format!("nested levels {}", code & 0x7f));
            let widths = bytes.u8();
            let two_bits = if widths == 0 { "without" } else { "with" };
            forms.insert(format!("nested {two_bits} levels of two bits"));
        }
        6 => {
            bytes.varint();
            let (scheme, flag) = (bytes.u8(), bytes.u8());
            forms.insert(format!("grid scheme {scheme}"));
            let meaning = if scheme < 5 { "minus zero" } else { "shared scales" };
            forms.insert(format!("grid {meaning} {flag}"));
        }
        7 => {
            forms.insert(format!("sparse mask plane {}", bytes.u8()));
        }
        12 => {
            let exceptions = if bytes.varint() == 0 { "without" } else { "with" };
            forms.insert(format!("cast {exceptions} exceptions"));
        }
        _ => {}
    }
}

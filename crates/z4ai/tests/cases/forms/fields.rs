//! The fields that models and blocks are made of: numbers, frequency tables, planes, scales.

use super::Forms;

/// What is left of a frame that is known to be valid.
pub struct Bytes<'a>(pub &'a [u8]);

/// How a plane is coded.
#[derive(Debug, Clone, Copy)]
pub enum Plane {
    Raw,
    Constant,
    Coded,
}

impl<'a> Bytes<'a> {
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    pub fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// A varint, also one that stands for a zigzag number.
    pub fn varint(&mut self) -> usize {
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

    /// Passes over varints.
    pub fn varints(&mut self, count: usize) {
        for _ in 0..count {
            self.varint();
        }
    }

    /// Passes over frequency tables.
    pub fn tables(&mut self, count: usize) {
        for _ in 0..count {
            self.table();
        }
    }

    fn table(&mut self) {
        let mut used = 0;
        let mut bits = |count: u32| {
            let value = (0..count)
                .map(|bit| {
                    usize::from(self.0[(used + bit as usize) / 8] >> ((used + bit as usize) % 8) & 1) << bit
                })
                .sum::<usize>();
            used += count as usize;
            value
        };
        let (first, last) = (bits(8), bits(8));
        let mut before = [0usize; 2];
        for _ in first..last {
            let parameter = ((before[0] + before[1]) / 2).checked_ilog2().unwrap_or(0);
            let ones = (0..12).take_while(|_| bits(1) == 1).count();
            let frequency = if ones == 12 { bits(16) } else { ones << parameter | bits(parameter) };
            before = [before[1], frequency];
        }
        self.take(used.div_ceil(8));
    }

    pub fn plane_model(&mut self, forms: &mut Forms) -> Plane {
        let kind = self.u8();
        assert!(kind < 3, "a plane model {kind}");
        let (plane, name) = match kind {
            0 => (Plane::Raw, "raw"),
            1 => {
                self.u8();
                (Plane::Constant, "constant")
            }
            _ => {
                self.table();
                (Plane::Coded, "coded")
            }
        };
        forms.insert(format!("plane {name}"));
        plane
    }

    pub fn plane_models(&mut self, count: usize, forms: &mut Forms) {
        for _ in 0..count {
            self.plane_model(forms);
        }
    }

    /// Passes over an rANS stream.
    pub fn rans(&mut self) {
        let length = self.varint();
        self.take(length);
    }

    /// Passes over the data of a plane of `count` bytes.
    pub fn plane_data(&mut self, plane: Plane, count: usize) {
        match plane {
            Plane::Raw => {
                self.take(count);
            }
            Plane::Constant => {}
            Plane::Coded => self.rans(),
        }
    }

    /// Passes over a self-contained plane of `count` bytes.
    pub fn plane(&mut self, count: usize, forms: &mut Forms) {
        let plane = self.plane_model(forms);
        self.plane_data(plane, count);
    }

    /// Passes over a counted plane, and says how many bytes it stands for.
    pub fn counted_plane(&mut self, forms: &mut Forms) -> usize {
        let count = self.varint();
        self.plane(count, forms);
        count
    }

    /// Which parts scales have.
    pub fn scales(&mut self, elements: usize, forms: &mut Forms) -> u8 {
        self.varint();
        let parts = self.u8();
        if parts != 0 {
            let row = self.varint();
            if parts & 1 != 0 {
                self.plane(elements.div_ceil(row), forms);
            }
            if parts & 2 != 0 {
                self.plane(row, forms);
            }
        }
        parts
    }
}

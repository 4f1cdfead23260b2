//! What a decoder says about bytes that break a rule of the format. The stages of the codec all speak this one
//! small type; the frame adds where it happened.

/// A stored block or plane breaks a rule of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("damaged data: {rule}")]
pub(crate) struct Damaged {
    /// The rule that does not hold, as a sentence fragment.
    pub(crate) rule: &'static str,
}

/// Shorthand for the error of a broken rule, to be used as `ok_or(broken("..."))?`.
pub(crate) const fn broken(rule: &'static str) -> Damaged {
    Damaged { rule }
}

//! Which tensors a command takes, and under which names: `--include`, `--exclude` and `--rename`.

use std::borrow::Cow;
use std::collections::HashSet;

use clap::Args;
use regex_lite::Regex;
use ztensor::Reader;
use ztensor::convert::everything;

use crate::{Failure, Result};

#[derive(Args)]
pub(crate) struct SelectionOptions {
    /// Take only tensors whose names match: * stands for anything, ? for one character, [ab] for one of several
    #[arg(long, value_name = "GLOB", conflicts_with = "delete_original")]
    include: Vec<String>,
    /// Leave out tensors whose names match
    #[arg(long, value_name = "GLOB", conflicts_with = "delete_original")]
    exclude: Vec<String>,
    /// Rename tensors as sed would: s/^model\.//, with g for every place and i for any case; several apply in turn
    #[arg(long, value_name = "s/REGEX/TEXT/", value_parser = Rename::parse)]
    rename: Vec<Rename>,
}

impl SelectionOptions {
    /// The tensors of a file that are taken, with their new names.
    pub(crate) fn of<'r>(&self, reader: &'r Reader) -> Result<Vec<(&'r str, Cow<'r, str>)>> {
        let any = |globs: &[String], name: &str| globs.iter().any(|glob| matches(glob, name));
        let mut chosen = everything(reader);
        chosen.retain(|(name, _)| {
            (self.include.is_empty() || any(&self.include, name)) && !any(&self.exclude, name)
        });
        if chosen.is_empty() && !reader.is_empty() {
            return Err(Failure::new(format!(
                "none of the {} match --include and --exclude",
                crate::display::tensors(reader.len())
            )));
        }
        let mut names = HashSet::new();
        for (name, new) in &mut chosen {
            let renamed = self.rename.iter().fold(Cow::Borrowed(*name), |name, rename| rename.apply(name));
            if renamed.is_empty() {
                return Err(Failure::new(format!("--rename leaves nothing of the name \"{name}\"")));
            }
            if !names.insert(renamed.clone().into_owned()) {
                return Err(Failure::new(format!("--rename gives two tensors the name \"{renamed}\"")));
            }
            *new = renamed;
        }
        Ok(chosen)
    }
}

/// One `s/…/…/`.
#[derive(Clone)]
struct Rename {
    pattern: Regex,
    replacement: String,
    everywhere: bool,
}

impl Rename {
    fn parse(text: &str) -> std::result::Result<Rename, String> {
        let form = || format!("\"{text}\" is not of the form s/REGEX/TEXT/");
        let mut letters = text.chars();
        let (Some('s'), Some(mark)) = (letters.next(), letters.next()) else { return Err(form()) };
        let mut parts = vec![String::new()];
        let mut escaped = false;
        for letter in letters {
            let Some(part) = parts.last_mut() else { return Err(form()) };
            match (escaped, letter) {
                (false, '\\') => escaped = true,
                (false, letter) if letter == mark => parts.push(String::new()),
                (true, letter) if letter == mark => {
                    part.push(letter);
                    escaped = false;
                }
                (was_escaped, letter) => {
                    if was_escaped {
                        part.push('\\');
                    }
                    part.push(letter);
                    escaped = false;
                }
            }
        }
        let [pattern, replacement, flags] = parts.as_slice() else { return Err(form()) };
        if let Some(unknown) = flags.chars().find(|flag| !"gi".contains(*flag)) {
            return Err(format!("\"{unknown}\" is no flag of s/REGEX/TEXT/; there are g and i"));
        }
        let pattern = if flags.contains('i') { format!("(?i){pattern}") } else { pattern.clone() };
        let pattern = Regex::new(&pattern).map_err(|error| error.to_string())?;
        Ok(Rename { pattern, replacement: references(replacement), everywhere: flags.contains('g') })
    }

    fn apply<'n>(&self, name: Cow<'n, str>) -> Cow<'n, str> {
        let most = if self.everywhere { 0 } else { 1 };
        Cow::Owned(self.pattern.replacen(&name, most, self.replacement.as_str()).into_owned())
    }
}

/// sed's `\1` and `&` as the regex engine spells them.
fn references(replacement: &str) -> String {
    let mut text = String::new();
    let mut letters = replacement.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '$' => text.push_str("$$"),
            '&' => text.push_str("${0}"),
            '\\' => match letters.next() {
                Some(digit @ '0'..='9') => text.push_str(&format!("${{{digit}}}")),
                Some('$') => text.push_str("$$"),
                Some(other) => text.push(other),
                None => text.push('\\'),
            },
            other => text.push(other),
        }
    }
    text
}

/// Whether a name matches a glob. A star that fits in several ways is tried again from its last place only, which is enough.
pub(super) fn matches(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let (mut at, mut position) = (0, 0);
    let mut star = None;
    while position < name.len() {
        let step = match glob.get(at) {
            Some('*') => {
                star = Some((at + 1, position));
                at += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => class(&glob[at..], name[position]),
            Some(letter) => (*letter == name[position]).then_some(1),
            None => None,
        };
        match (step, star) {
            (Some(length), _) => {
                at += length;
                position += 1;
            }
            (None, Some((after, from))) => {
                star = Some((after, from + 1));
                (at, position) = (after, from + 1);
            }
            (None, None) => return false,
        }
    }
    glob[at..].iter().all(|letter| *letter == '*')
}

/// The length of a class such as `[a-c]` if it takes a letter; one without an end is a mere bracket.
fn class(glob: &[char], letter: char) -> Option<usize> {
    let Some(end) = glob.iter().skip(2).position(|end| *end == ']') else {
        return (letter == '[').then_some(1);
    };
    let (inverted, inside) = match &glob[1..end + 2] {
        ['!' | '^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = false;
    let mut rest = inside;
    while let [first, tail @ ..] = rest {
        rest = match tail {
            ['-', last, after @ ..] => {
                found |= (*first..=*last).contains(&letter);
                after
            }
            _ => {
                found |= *first == letter;
                tail
            }
        };
    }
    (found != inverted).then_some(end + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_take_what_shells_take() {
        let yes = [
            ("*", ""),
            ("*.weight", "a.b.weight"),
            ("layers.?.*", "layers.3.x"),
            ("a*b*c", "aXbYbZc"),
            ("l[0-2].w", "l1.w"),
            ("l[!0-2].w", "l7.w"),
            ("[", "["),
        ];
        for (glob, name) in yes {
            assert!(matches(glob, name), "{glob} {name}");
        }
        for (glob, name) in [("*.weight", "a.bias"), ("a?", "a"), ("l[0-2]", "l3"), ("", "x"), ("a*b", "acX")]
        {
            assert!(!matches(glob, name), "{glob} {name}");
        }
    }

    #[test]
    fn names_change_as_sed_changes_lines() {
        let renamed =
            |rule: &str, name: &'static str| Rename::parse(rule).unwrap().apply(name.into()).into_owned();
        assert_eq!(renamed(r"s/^model\.//", "model.a.model.b"), "a.model.b");
        assert_eq!(renamed(r"s/model\.//g", "model.a.model.b"), "a.b");
        assert_eq!(renamed(r"s|(\d+)|h\1&|", "l.12.w"), "l.h1212.w");
        assert_eq!(renamed(r"s/A/x/gi", "aAb"), "xxb");
        assert_eq!(renamed(r"s/a\/b/$1/", "a/b"), "$1");
        for wrong in ["s/a", "y/a/b/", "s/(/b/", "s/a/b/q", ""] {
            assert!(Rename::parse(wrong).is_err(), "{wrong}");
        }
    }
}

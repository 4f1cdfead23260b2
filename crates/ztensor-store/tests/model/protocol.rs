//! What each actor does next. One step is one operation on the storage; the comments cite the rules of `spec/store.md`.

use crate::state::*;

/// A rule that can be left out, to see that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// V1: a writer makes undecided proposals void.
    VoidDecrees,
    /// V2, V2b: a writer looks for its packs after the commit.
    LookForPacks,
    /// V3: roots go on below a generation that is not sound.
    Soundness,
    /// V3b: a doomed re-anchorer writes no tombstone.
    AbandonDoomed,
    /// V4: a re-anchorer that finds its generation taken gives up.
    AbandonConflict,
    /// V5, V6: the highest generation is never deleted.
    KeepHighest,
    /// V6: a writer looks at the name after the commit.
    LookAtName,
    /// V7: a collector sees that the proposal is still there.
    CheckProposal,
    /// V7: the proposal is deleted before its decree.
    ProposalFirst,
    /// V8: what was removed is a root for the grace period.
    Grace,
    /// V9: a doomed writer's tombstone is at exactly the next generation.
    ExactTombstone,
}

impl Rule {
    pub const ALL: [Rule; 11] = [
        Rule::VoidDecrees,
        Rule::LookForPacks,
        Rule::Soundness,
        Rule::AbandonDoomed,
        Rule::AbandonConflict,
        Rule::KeepHighest,
        Rule::LookAtName,
        Rule::CheckProposal,
        Rule::ProposalFirst,
        Rule::Grace,
        Rule::ExactTombstone,
    ];
}

/// Who takes part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cast {
    /// A writer of B that refers to the pack of A.
    pub reusing: bool,
    /// A writer of B with a pack of its own only.
    pub fresh: bool,
    /// Two writers of B.
    pub twins: bool,
    /// A writer of A, once that was removed.
    pub readd: bool,
    /// Somebody who gives A, or with twins B, a new generation.
    pub anchor: bool,
    /// Somebody who removes A, or with twins or a reader B.
    pub remover: bool,
    /// Runs of each collector.
    pub collectors: [u8; 2],
    /// A reader of B.
    pub reader: bool,
    /// Whether answers get lost.
    pub lost: bool,
    /// Whether ages are what they seem; otherwise everything is always old enough.
    pub honest: bool,
}

impl Cast {
    pub fn writers(&self) -> Vec<Writer> {
        let mut writers = Vec::new();
        if self.reusing {
            writers.push(Writer { reuses: true, ..Writer::new(B, 1) });
        }
        if self.fresh {
            writers.push(Writer::new(B, 2));
        }
        if self.twins {
            writers.extend([Writer::new(B, 3), Writer::new(B, 4)]);
        }
        if self.readd {
            writers.push(Writer::new(A, 5));
        }
        if self.anchor {
            let name = if self.twins { B } else { A };
            writers.push(Writer { anchors: true, ..Writer::new(name, 6) });
        }
        writers
    }

    fn removed(&self) -> usize {
        if self.twins || self.reader { B } else { A }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Writer(usize),
    /// The operation takes place, and its answer is lost.
    WriterLoses(usize),
    Remover,
    RemoverLoses,
    Collector(usize),
    ReaderOpens,
    ReaderReads,
    /// A grace period passes.
    Wait,
}

pub struct Store {
    pub cast: Cast,
    pub without: Option<Rule>,
}

impl Store {
    fn keeps(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    pub fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        for (number, writer) in state.writers.iter().enumerate() {
            if !matches!(writer.at, At::Succeeded | At::Failed) {
                steps.push(Step::Writer(number));
            }
            if self.cast.lost && writer.at == At::Create {
                steps.push(Step::WriterLoses(number));
            }
        }
        if let Some(remover) = state.remover {
            if !matches!(remover.at, Removing::Done | Removing::Failed) {
                steps.push(Step::Remover);
            }
            if self.cast.lost && remover.at == Removing::Create {
                steps.push(Step::RemoverLoses);
            }
        }
        let working = |number: &usize| state.collectors[*number].at != Collecting::Done;
        steps.extend((0..2).filter(working).map(Step::Collector));
        if self.cast.reader {
            let open =
                highest(&state.names[B]).is_some_and(|(_, record)| matches!(record, Record::Manifest { .. }));
            if open && state.reading.is_none() && state.writers.iter().any(Writer::succeeded) {
                steps.push(Step::ReaderOpens);
            }
            if state.reading.is_some() && !state.reader_missed {
                steps.push(Step::ReaderReads);
            }
        }
        if self.cast.honest && state.b_removed && !state.b_old {
            steps.push(Step::Wait);
        }
    }

    pub fn take(&self, state: &mut State, step: Step) {
        match step {
            Step::Writer(number) => self.write(state, number, false),
            Step::WriterLoses(number) => self.write(state, number, true),
            Step::Remover => self.remove(state, false),
            Step::RemoverLoses => self.remove(state, true),
            Step::Collector(number) => self.collect(state, number),
            Step::ReaderOpens => {
                if let Some((_, Record::Manifest { packs, .. })) = highest(&state.names[B]) {
                    state.reading = Some(packs);
                }
            }
            Step::ReaderReads => {
                let packs = state.reading.unwrap_or(0);
                state.reader_missed = !state.has(packs) && !state.b_old;
            }
            Step::Wait => state.b_old = true,
        }
    }

    /// Creates a record. `None`: it is ours; otherwise what is there.
    fn create(&self, state: &mut State, name: usize, generation: usize, record: Record) -> Option<Record> {
        match state.names[name][generation] {
            Some(found) if found == record => None,
            Some(found) => Some(found),
            None => {
                state.names[name][generation] = Some(record);
                if let Record::Tombstone { origin, .. } = record {
                    state.buried |= 1 << origin;
                    state.b_removed |= name == B;
                }
                None
            }
        }
    }

    fn write(&self, state: &mut State, number: usize, lost: bool) {
        let mut writer = state.writers[number];
        let name = writer.name as usize;
        let manifest = Record::Manifest { origin: writer.origin, packs: writer.packs, write: writer.own };
        let doomed = match (writer.anchors, self.keeps(Rule::AbandonDoomed)) {
            (true, true) => At::Failed,
            _ => At::Bury,
        };
        writer.at = match writer.at {
            At::Start => match highest(&state.names[name]) {
                Some((top, Record::Manifest { origin, .. })) if writer.anchors && top + 1 < GENERATIONS => {
                    (writer.origin, writer.generation) = (origin, top as u8 + 1);
                    At::Choose
                }
                None if !writer.anchors => At::Choose,
                Some((top, Record::Tombstone { .. })) if !writer.anchors && top + 1 < GENERATIONS => {
                    writer.generation = top as u8 + 1;
                    At::Choose
                }
                _ => At::Failed,
            },
            At::Choose => {
                let endangered = state
                    .proposals
                    .iter()
                    .fold(0, |all, proposal| all | proposal.decree.or(proposal.packs).unwrap_or(0));
                match highest(&state.names[A]) {
                    Some((_, Record::Manifest { packs, .. }))
                        if writer.reuses && endangered & packs == 0 && state.has(packs) =>
                    {
                        writer.packs |= packs;
                    }
                    _ => {}
                }
                At::Put
            }
            At::Put => {
                state.packs |= 1 << writer.own;
                writer.packs |= 1 << writer.own;
                At::Create
            }
            At::Create => match self.create(state, name, writer.generation as usize, manifest) {
                _ if lost => At::ReadBack,
                None => At::LookAtName,
                Some(_) if writer.anchors && !self.keeps(Rule::AbandonConflict) => {
                    writer.generation += 1;
                    if (writer.generation as usize) < GENERATIONS { At::Create } else { At::Failed }
                }
                Some(_) => At::Failed,
            },
            At::ReadBack => match state.names[name][writer.generation as usize] {
                None => At::Create,
                Some(found) if found == manifest => At::LookAtName,
                Some(_) => At::Failed,
            },
            At::LookAtName => match highest(&state.names[name]) {
                _ if !self.keeps(Rule::LookAtName) => At::LookAtProposals,
                Some((top, Record::Manifest { origin, .. }))
                    if top == writer.generation as usize || origin == writer.origin =>
                {
                    At::LookAtProposals
                }
                _ => At::Failed,
            },
            At::LookAtProposals => {
                let ours =
                    |proposal: &Proposal| proposal.packs.is_some_and(|packs| packs & writer.packs != 0);
                let doom = state.proposals.iter().any(|proposal| {
                    ours(proposal) && proposal.decree.is_some_and(|decree| decree & writer.packs != 0)
                });
                let open =
                    state.proposals.iter().position(|proposal| ours(proposal) && proposal.decree.is_none());
                match open {
                    _ if doom => doomed,
                    Some(open) if self.keeps(Rule::VoidDecrees) => At::Decide(open as u8),
                    _ => At::LookForPacks,
                }
            }
            At::Decide(open) => match state.proposals[open as usize].decree {
                Some(decree) if decree & writer.packs != 0 => doomed,
                Some(_) => At::LookAtProposals,
                None => {
                    state.proposals[open as usize].decree = Some(0);
                    At::LookAtProposals
                }
            },
            At::LookForPacks if state.has(writer.packs) || !self.keeps(Rule::LookForPacks) => At::Succeeded,
            At::LookForPacks => doomed,
            At::Bury => {
                let next = match self.keeps(Rule::ExactTombstone) {
                    true => writer.generation as usize + 1,
                    false => highest(&state.names[name]).map_or(0, |(top, _)| top + 1),
                };
                if next < GENERATIONS {
                    let origin = match highest(&state.names[name]) {
                        Some((_, Record::Manifest { origin, .. })) if !self.keeps(Rule::ExactTombstone) => {
                            origin
                        }
                        _ => writer.origin,
                    };
                    // Whose checkpoint a misplaced tombstone covers is not what its writer was told to bury.
                    let buried = state.buried;
                    self.create(state, name, next, Record::Tombstone { origin, write: writer.own });
                    if origin != writer.origin || writer.anchors {
                        state.buried = buried;
                    }
                }
                At::Failed
            }
            ended => ended,
        };
        if matches!(writer.at, At::Failed) {
            writer = Writer { at: At::Failed, packs: 0, generation: 0, ..writer };
        }
        state.writers[number] = writer;
    }

    fn remove(&self, state: &mut State, lost: bool) {
        let Some(mut remover) = state.remover else { return };
        let name = self.cast.removed();
        let tombstone = |target: u8| Record::Tombstone { origin: target, write: 7 };
        let target = remover.target.unwrap_or(0);
        let next = remover.top as usize + 1;
        remover.at = match remover.at {
            Removing::Start => match (highest(&state.names[name]), remover.target) {
                (Some((top, Record::Manifest { origin, .. })), None) if top + 1 < GENERATIONS => {
                    (remover.target, remover.top) = (Some(origin), top as u8);
                    Removing::Create
                }
                (Some((top, Record::Manifest { origin, .. })), Some(target))
                    if origin == target && top + 1 < GENERATIONS =>
                {
                    remover.top = top as u8;
                    Removing::Create
                }
                (Some((_, Record::Manifest { origin, .. })), Some(target)) if origin == target => {
                    Removing::Failed
                }
                (_, Some(_)) => Removing::Done,
                _ => Removing::Start,
            },
            Removing::Create => match self.create(state, name, next, tombstone(target)) {
                _ if lost => Removing::ReadBack,
                None => Removing::LookAgain,
                Some(_) => Removing::Start,
            },
            Removing::ReadBack => match state.names[name][next] {
                None => Removing::Create,
                Some(found) if found == tombstone(target) => Removing::LookAgain,
                Some(_) => Removing::Start,
            },
            Removing::LookAgain => match highest(&state.names[name]) {
                Some((top, Record::Manifest { origin, .. })) if top > next && origin == target => {
                    Removing::Start
                }
                _ => Removing::Done,
            },
            ended => ended,
        };
        state.remover = Some(remover);
    }

    fn collect(&self, state: &mut State, number: usize) {
        let mut gc = state.collectors[number];
        gc.at = match gc.at {
            Collecting::ListProposals => {
                gc.seen = state.proposals.map(|proposal| proposal.packs);
                Collecting::ListPacks
            }
            Collecting::ListPacks => {
                gc.candidates = state.packs;
                Collecting::ReadManifests(0)
            }
            Collecting::ReadManifests(name) => {
                gc.names[name as usize] = state.names[name as usize];
                match (name as usize) + 1 < NAMES {
                    true => Collecting::ReadManifests(name + 1),
                    false => Collecting::ListAgain,
                }
            }
            Collecting::ListAgain => {
                self.find_roots(state, &mut gc);
                Collecting::Next
            }
            Collecting::Next => match gc.seen.iter().position(Option::is_some) {
                Some(proposal) => Collecting::Decide(proposal as u8),
                None => Collecting::Sweep,
            },
            Collecting::Decide(k) => {
                let proposal = &mut state.proposals[k as usize];
                let free = gc.seen[k as usize].unwrap_or(0) & !gc.roots;
                gc.decree = *proposal.decree.get_or_insert(free);
                Collecting::Check(k)
            }
            Collecting::Check(k) => match state.proposals[k as usize].packs {
                None if self.keeps(Rule::CheckProposal) => Collecting::DeleteStale(k),
                _ => Collecting::DeletePacks(k),
            },
            Collecting::DeleteStale(k) => {
                state.proposals[k as usize].decree = None;
                gc.seen[k as usize] = None;
                Collecting::Next
            }
            Collecting::DeletePacks(k) => match gc.decree {
                0 if self.keeps(Rule::ProposalFirst) => Collecting::DeleteProposal(k),
                0 => Collecting::DeleteDecree(k),
                decree => {
                    let pack = decree & decree.wrapping_neg();
                    state.packs &= !pack;
                    gc.decree &= !pack;
                    Collecting::DeletePacks(k)
                }
            },
            Collecting::DeleteProposal(k) => {
                state.proposals[k as usize].packs = None;
                match self.keeps(Rule::ProposalFirst) {
                    true => Collecting::DeleteDecree(k),
                    false => {
                        gc.seen[k as usize] = None;
                        Collecting::Next
                    }
                }
            }
            Collecting::DeleteDecree(k) => {
                state.proposals[k as usize].decree = None;
                match self.keeps(Rule::ProposalFirst) {
                    true => {
                        gc.seen[k as usize] = None;
                        Collecting::Next
                    }
                    false => Collecting::DeleteProposal(k),
                }
            }
            Collecting::Sweep => {
                let next = (0..NAMES).find(|name| gc.sweep[*name] != 0);
                match next {
                    None => Collecting::Propose,
                    Some(name) => {
                        let generation = gc.sweep[name].trailing_zeros() as usize;
                        state.names[name][generation] = None;
                        gc.sweep[name] &= gc.sweep[name] - 1;
                        Collecting::Sweep
                    }
                }
            }
            Collecting::Propose => {
                let free = gc.candidates & !gc.roots & !gc.proposed;
                let unused = state.proposals.iter_mut().find(|proposal| !proposal.used);
                if let (true, Some(proposal)) = (free != 0, unused) {
                    *proposal = Proposal { packs: Some(free), decree: None, used: true };
                }
                gc.again();
                gc.at
            }
            Collecting::Done => Collecting::Done,
        };
        state.collectors[number] = gc;
    }

    /// Roots by rule 12, and what may be swept.
    fn find_roots(&self, state: &State, gc: &mut Collector) {
        let endangered = state
            .proposals
            .iter()
            .fold(0, |all, proposal| all | proposal.decree.or(proposal.packs).unwrap_or(0));
        gc.proposed = gc.seen.iter().flatten().fold(0, |all, packs| all | packs);
        gc.proposed |=
            state.proposals.iter().filter_map(|proposal| proposal.packs).fold(0, |all, packs| all | packs);
        for (number, name) in gc.names.iter().enumerate() {
            let mut stop = None;
            for (generation, record) in
                (0..GENERATIONS).rev().filter_map(|generation| Some((generation, name[generation]?)))
            {
                let sound = match record {
                    Record::Manifest { packs, .. } => {
                        gc.roots |= packs;
                        (endangered & packs == 0 && state.has(packs)) || !self.keeps(Rule::Soundness)
                    }
                    // With an honest clock a tombstone of B is young until time has passed.
                    Record::Tombstone { .. } => {
                        !self.cast.honest || number == A || state.b_old || !self.keeps(Rule::Grace)
                    }
                };
                if sound {
                    stop = Some(generation);
                    break;
                }
            }
            if let Some(stop) = stop {
                let below = |generation: &usize| *generation < stop && name[*generation].is_some();
                gc.sweep[number] =
                    (0..GENERATIONS).filter(below).fold(0, |all, generation| all | 1 << generation);
                let is_tombstone = matches!(name[stop], Some(Record::Tombstone { .. }));
                if !self.keeps(Rule::KeepHighest) && is_tombstone {
                    gc.sweep[number] |= 1 << stop;
                }
            }
        }
        // What was only needed for this is not told apart any more.
        gc.names = [[None; GENERATIONS]; NAMES];
    }
}

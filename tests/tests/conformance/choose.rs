//! What happens next in a trace: chosen at random, the likelier the more it can teach.

use std::fmt;

use operator::plan::facts::Id;
use tests::model::etcd::{Change, Etcd};

/// A step of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A change is asked for, of that member.
    Ask(Id, Change),
    /// Leadership is to move; asked of that member.
    MoveLeader(Id, Id),
    /// The list is read, at that member.
    List(Id),
    /// A learner (or a voter) with a URL of its own is asked for.
    AddNew(Id, bool),
    /// An etcd is started: it joins if it never ran.
    Start(Id),
    /// An etcd is killed.
    Stop(Id),
    /// Those are cut off from all others.
    Cut(Vec<Id>),
    /// The network is whole again.
    Heal,
    /// All connections grow older than 5 s.
    Settle,
    /// Much is written, so that who does not run falls behind.
    Write,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask(via, change) => write!(f, "ask {via}: {change:?}"),
            Self::AddNew(via, learner) => write!(f, "ask {via}: a new {}", if *learner { "learner" } else { "voter" }),
            Self::MoveLeader(via, to) => write!(f, "ask {via}: leadership to {to}"),
            Self::List(via) => write!(f, "ask {via}: the list"),
            Self::Start(id) => write!(f, "start {id}"),
            Self::Stop(id) => write!(f, "stop {id}"),
            Self::Cut(ids) => {
                let ids: Vec<String> = ids.iter().map(Id::to_string).collect();
                write!(f, "cut off {}", ids.join(" "))
            }
            Self::Heal => f.write_str("heal"),
            Self::Settle => f.write_str("settle"),
            Self::Write => f.write_str("write"),
        }
    }
}

/// What a trace may choose from, beside the model.
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each of its own")]
pub(crate) struct Options<'a> {
    pub(crate) model: &'a Etcd,
    /// Members that were running when the network was cut, and so know the list of then.
    pub(crate) answers: Vec<Id>,
    /// Members that were removed.
    pub(crate) removed: &'a [Id],
    /// Those of them that do not run, and would be told if they did.
    pub(crate) ghosts: Vec<Id>,
    pub(crate) is_cut: bool,
    /// Some who run may not know the list.
    pub(crate) is_stale: bool,
    pub(crate) may_add: bool,
    /// A refused `MemberUpdate` has no effect. With 3.7 it has: a member that is started again carries it out on its own
    /// list (it no longer looks at whether a change of membership is valid when it reads its log).
    pub(crate) may_update_wrongly: bool,
}

impl Options<'_> {
    #[allow(clippy::too_many_lines, reason = "a table")]
    pub(crate) fn choose(&self, random: &mut fastrand::Rng) -> Op {
        let model = self.model;
        let listed: Vec<Id> = model.list.iter().map(|entry| entry.id).collect();
        let learners: Vec<Id> = model.list.iter().filter(|e| e.learner).map(|e| e.id).collect();
        let stopped: Vec<Id> = listed
            .iter()
            .copied()
            .filter(|id| !model.running.contains(id))
            .collect();
        let unstarted: Vec<Id> = model.list.iter().filter(|e| e.name.is_empty()).map(|e| e.id).collect();
        let quorum = model.has_quorum();
        let mut ops: Vec<(u32, Op)> = Vec::new();
        // Learners answer everything alike.
        let voters: Vec<Id> = self
            .answers
            .iter()
            .copied()
            .filter(|id| !learners.contains(id))
            .collect();
        let asked = if random.u8(..10) == 0 { &self.answers } else { &voters };
        if let Some(&via) = pick(random, asked).or(pick(random, &self.answers)) {
            let url = |random: &mut fastrand::Rng| pick(random, &model.list).map(|entry| entry.peer_url.clone());
            let any = pick(random, &listed).copied().unwrap_or(via);
            if self.may_add {
                let weight = [8, 8, 8, 5, 4, 3].get(listed.len()).copied().unwrap_or(1);
                ops.push((weight, Op::AddNew(via, true)));
                // A voter that has not started can take the quorum away; those who are cut off would then never hear of it.
                if !self.is_cut {
                    ops.push((1, Op::AddNew(via, false)));
                }
            }
            ops.push((1, Op::Ask(via, Change::AddLearner(url(random).unwrap_or_default()))));
            ops.push((1, Op::Ask(via, Change::AddVoter(url(random).unwrap_or_default()))));
            let promote = |id| Op::Ask(via, Change::Promote { id, reached: 0 });
            if let Some(&id) = pick(random, &learners) {
                ops.push((6, promote(id)));
            }
            ops.push((1, promote(any)));
            ops.push((3, Op::Ask(via, Change::Remove(any))));
            let strange = pick(random, self.removed).copied().unwrap_or(Id(7));
            let strange = *pick(random, &[strange, Id(7)]).unwrap_or(&Id(7));
            ops.push((1, Op::Ask(via, Change::Remove(strange))));
            ops.push((1, promote(strange)));
            let of = *pick(random, &[any, any, strange]).unwrap_or(&any);
            let own = model.entry(of).map(|entry| entry.peer_url.clone());
            let to = if self.may_update_wrongly { url(random) } else { own };
            ops.push((
                1,
                Op::Ask(
                    via,
                    Change::Update(of, to.unwrap_or_else(|| "http://127.0.0.1:1".into())),
                ),
            ));
            ops.push((2, Op::MoveLeader(via, any)));
            ops.push((1, Op::List(via)));
        }
        // New members of a cluster are told by those that are there.
        let may_join = !self.is_cut;
        // So they must know of it: in doubt only those are started that need nobody.
        let startable: Vec<Id> = stopped
            .iter()
            .copied()
            .filter(|id| quorum || !self.is_stale || !unstarted.contains(id))
            .collect();
        if let Some(&id) = pick(random, &startable)
            && may_join
        {
            ops.push((if quorum { 4 } else { 16 }, Op::Start(id)));
        }
        if let Some(&id) = pick(random, &unstarted)
            && may_join
            && startable.contains(&id)
        {
            ops.push((6, Op::Start(id)));
        }
        if let Some(&id) = pick(random, &self.ghosts)
            && may_join
            && quorum
        {
            ops.push((1, Op::Start(id)));
        }
        if let Some(&id) = pick(random, &model.running)
            && model.running.len() > 1
        {
            ops.push((2, Op::Stop(id)));
        }
        if self.is_cut {
            ops.push((if quorum { 5 } else { 12 }, Op::Heal));
        } else if model.running.len() > 1 && self.answers.len() == model.running.len() {
            let mut far = model.running.clone();
            random.shuffle(&mut far);
            far.truncate(random.usize(1..model.running.len()));
            far.sort_unstable();
            ops.push((2, Op::Cut(far)));
        }
        if !model.young.is_empty() {
            ops.push((4, Op::Settle));
        }
        if quorum && model.list.len() > 1 {
            ops.push((1, Op::Write));
        }
        let total: u32 = ops.iter().map(|(weight, _)| weight).sum();
        let mut at = random.u32(..total.max(1));
        for (weight, op) in ops {
            if at < weight {
                return op;
            }
            at -= weight;
        }
        Op::Settle
    }
}

fn pick<'a, T>(random: &mut fastrand::Rng, from: &'a [T]) -> Option<&'a T> {
    (!from.is_empty()).then(|| &from[random.usize(..from.len())])
}

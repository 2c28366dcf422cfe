//! Everything that can happen in the model, one move at a time, each with a readable line.

use std::{fmt, time::Duration};

use jiff::SignedDuration;
use operator::plan::{
    facts::{Id, Medium, Unanswered},
    step::Step,
    unanswered,
};

use super::{
    etcd::Entry,
    execute::Answer,
    planners::Planner,
    world::{Disk, Sim, SimProcess},
};

/// A member's name.
pub type Name = String;

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// The operator looks, plans, and sees to objects that nobody's data depend on.
    Look,
    /// As `Look`, and it is killed after so many steps.
    LookAndDie(usize),
    /// The operator takes the next step of its plan.
    Act,
    /// As `Act`, with the chain that changes membership, though others come before it.
    ActOnMembership,
    /// The next step is done, and its answer is lost.
    LoseAnswer,
    /// The next call to etcd gets no answer, and is under way still.
    AnswerLate,
    /// etcd carries out what is still under way.
    CarryOut,
    /// etcd gives it up.
    GiveUp,
    /// The operator is killed: nobody acts before its Lease has run out.
    Crash,
    /// The operator ends when asked to, and another takes over at once.
    HandOver,
    /// What a member does next by itself.
    Go(Name),
    /// 3 seconds pass.
    Moment,
    /// A minute passes.
    Minute,
    /// A Pod is gone.
    LosePod(Name),
    /// A Pod is asked to go.
    EvictPod(Name),
    /// A volume is emptied.
    LoseDisk(Name),
    /// A directory is damaged; etcd ends.
    DamageDisk(Name),
    /// A directory cannot be read; etcd ends.
    HideDisk(Name),
    /// It can be read again.
    ShowDisk(Name),
    /// etcd is killed.
    KillEtcd(Name),
    /// No node takes its Pod.
    Stick(Name),
    /// A node does.
    Unstick(Name),
    /// The operator does not hear its agent.
    CutOff(Name),
    /// It does again.
    Hear(Name),
    /// Its etcd is cut off from the others.
    Isolate(Name),
    /// It is connected again.
    Rejoin(Name),
    /// What the operator has heard of it is not renewed.
    DelayReport(Name),
    /// It is.
    DeliverReport(Name),
    /// The operator's watches lag behind.
    StallWatches,
    /// They have caught up.
    ResumeWatches,
    /// A person deletes the object.
    DeleteMember(Name),
    /// A person removes it with etcdctl.
    RemoveByHand(Name),
    /// A person adds a learner that is none of ours.
    AddStranger,
    /// It leads from now on.
    Lead(Name),
    /// A person edits the size.
    Scale(u32),
    /// A person deletes the cluster.
    DeleteCluster,
}

/// A word, and the move of a member that it stands for.
type Named = (&'static str, fn(Name) -> Move);

/// Moves with a member's name, by their words.
const NAMED: &[Named] = &[
    ("go", Move::Go),
    ("lose-pod", Move::LosePod),
    ("evict-pod", Move::EvictPod),
    ("lose-disk", Move::LoseDisk),
    ("damage-disk", Move::DamageDisk),
    ("hide-disk", Move::HideDisk),
    ("show-disk", Move::ShowDisk),
    ("kill-etcd", Move::KillEtcd),
    ("stick-pod", Move::Stick),
    ("unstick-pod", Move::Unstick),
    ("cut-off", Move::CutOff),
    ("hear", Move::Hear),
    ("isolate", Move::Isolate),
    ("rejoin", Move::Rejoin),
    ("delay-report", Move::DelayReport),
    ("deliver-report", Move::DeliverReport),
    ("delete-member", Move::DeleteMember),
    ("remove-by-hand", Move::RemoveByHand),
    ("lead", Move::Lead),
];

/// Moves without one.
const PLAIN: &[(&str, Move)] = &[
    ("operator looks", Move::Look),
    ("operator acts", Move::Act),
    ("operator acts on membership", Move::ActOnMembership),
    ("operator acts, answer lost", Move::LoseAnswer),
    ("operator acts, answer late", Move::AnswerLate),
    ("operator crashes", Move::Crash),
    ("operator hands over", Move::HandOver),
    ("etcd carries out", Move::CarryOut),
    ("etcd gives up", Move::GiveUp),
    ("wait 3s", Move::Moment),
    ("wait 60s", Move::Minute),
    ("stall-watches", Move::StallWatches),
    ("resume-watches", Move::ResumeWatches),
    ("add-stranger", Move::AddStranger),
    ("delete-cluster", Move::DeleteCluster),
];

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((words, _)) = PLAIN.iter().find(|(_, plain)| plain == self) {
            return f.write_str(words);
        }
        match self {
            Self::LookAndDie(steps) => write!(f, "operator looks and crashes after {steps} steps"),
            Self::Scale(replicas) => write!(f, "scale {replicas}"),
            other => {
                let name = other.name().unwrap_or_default();
                let named = NAMED.iter().find(|(_, make)| make(name.to_owned()) == *other);
                write!(f, "{} {name}", named.map_or("?", |(words, _)| words))
            }
        }
    }
}

impl Move {
    /// Reads what [`fmt::Display`] writes.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        if let Some((_, plain)) = PLAIN.iter().find(|(words, _)| *words == line) {
            return Some(plain.clone());
        }
        if let Some(rest) = line.strip_prefix("operator looks and crashes after ") {
            return Some(Self::LookAndDie(rest.strip_suffix(" steps")?.parse().ok()?));
        }
        let (words, name) = line.split_once(' ')?;
        if words == "scale" {
            return Some(Self::Scale(name.parse().ok()?));
        }
        let (_, make) = NAMED.iter().find(|(word, _)| *word == words)?;
        Some(make(name.to_owned()))
    }

    fn name(&self) -> Option<&str> {
        match self {
            Self::Go(name)
            | Self::LosePod(name)
            | Self::EvictPod(name)
            | Self::LoseDisk(name)
            | Self::DamageDisk(name)
            | Self::HideDisk(name)
            | Self::ShowDisk(name)
            | Self::KillEtcd(name)
            | Self::Stick(name)
            | Self::Unstick(name)
            | Self::CutOff(name)
            | Self::Hear(name)
            | Self::Isolate(name)
            | Self::Rejoin(name)
            | Self::DelayReport(name)
            | Self::DeliverReport(name)
            | Self::DeleteMember(name)
            | Self::RemoveByHand(name)
            | Self::Lead(name) => Some(name),
            Self::Look
            | Self::LookAndDie(_)
            | Self::Act
            | Self::ActOnMembership
            | Self::LoseAnswer
            | Self::AnswerLate
            | Self::CarryOut
            | Self::GiveUp
            | Self::Crash
            | Self::HandOver
            | Self::Moment
            | Self::Minute
            | Self::StallWatches
            | Self::ResumeWatches
            | Self::AddStranger
            | Self::Scale(_)
            | Self::DeleteCluster => None,
        }
    }
}

/// Nobody's data, and no membership, depend on these: they are done in one go with the look that planned them.
fn is_upkeep(step: &Step) -> bool {
    !step.is_consensus()
        && !matches!(
            step,
            Step::RecordSeed { .. }
                | Step::NewIncarnation { .. }
                | Step::RecordClusterId { .. }
                | Step::DeleteMember { .. }
                | Step::ReleaseMember { .. }
                | Step::DeletePod { .. }
                | Step::Bind { .. }
                | Step::Direct { .. }
        )
}

/// etcd gives a proposal up after 7 s.
const PROPOSAL: SignedDuration = SignedDuration::from_secs(7);
/// What `Moment` lets pass.
const MOMENT: SignedDuration = SignedDuration::from_secs(3);

impl Sim {
    /// Makes a move. False: it is not possible now, and nothing has happened.
    pub fn perform(&mut self, it: &Move, planner: &dyn Planner) -> bool {
        let done = self.try_move(it, planner);
        if done {
            self.sweep();
            self.refresh();
            self.check();
            self.forget_the_dead();
        }
        done
    }

    fn try_move(&mut self, it: &Move, planner: &dyn Planner) -> bool {
        match it {
            Move::Look => self.look(planner, None),
            Move::LookAndDie(steps) => self.look(planner, Some(*steps)),
            Move::Act => self.act(0, Answer::Arrives),
            Move::ActOnMembership => match self.membership_chain() {
                Some(index) if index > 0 => self.act(index, Answer::Arrives),
                _ => false,
            },
            Move::LoseAnswer => {
                let index = self.membership_chain().unwrap_or(0);
                self.act(index, Answer::IsLost)
            }
            Move::AnswerLate => match self.membership_chain() {
                Some(index) => self.act(index, Answer::Late),
                None => false,
            },
            Move::CarryOut => {
                let possible = !self.proposals.is_empty() && self.etcd.has_quorum();
                if possible {
                    self.carry_out(0);
                }
                possible
            }
            Move::GiveUp => {
                !self.proposals.is_empty() && {
                    self.proposals.remove(0);
                    true
                }
            }
            Move::Crash => {
                !self.down && {
                    self.forget();
                    self.down = true;
                    true
                }
            }
            Move::HandOver => {
                !self.down && self.pass.is_empty() && {
                    // The Lease is given back when nothing is open any more.
                    let now = self.now;
                    let open = |open: &Unanswered| unanswered::settles_in(open, now) > Duration::ZERO;
                    self.down = self.unanswered.as_ref().is_some_and(open);
                    self.forget();
                    true
                }
            }
            Move::Go(name) => {
                let index = self.members.iter().position(|member| member.name == *name);
                let next = index.and_then(|index| Some((index, self.next_of(index)?)));
                if let Some((index, next)) = next {
                    self.go(index, next);
                }
                next.is_some()
            }
            Move::Moment => self.wait(MOMENT),
            Move::Minute => self.wait(SignedDuration::from_mins(1)),
            Move::StallWatches => {
                self.cache.is_none() && {
                    self.cache = Some(self.members.clone());
                    true
                }
            }
            Move::ResumeWatches => self.cache.take().is_some(),
            Move::AddStranger => self.add_stranger(),
            Move::Scale(replicas) => {
                self.spec.replicas != *replicas && {
                    Self::scale(self, *replicas);
                    true
                }
            }
            Move::DeleteCluster => {
                !self.ending && {
                    self.ending = true;
                    self.members.iter_mut().for_each(|member| member.deleting = true);
                    true
                }
            }
            it => match it.name().map(str::to_owned) {
                Some(name) => self.happens_to(it, &name),
                None => false,
            },
        }
    }

    fn look(&mut self, planner: &dyn Planner, dies: Option<usize>) -> bool {
        if self.down || !self.pass.is_empty() {
            return false;
        }
        let (facts, plan) = self.decide(planner);
        self.check_plan(&facts, &plan);
        let view = operator::plan::view::View::new(&facts);
        let (upkeep, rest): (Vec<_>, Vec<_>) = plan
            .chains
            .iter()
            .cloned()
            .partition(|chain| chain.iter().all(is_upkeep));
        if dies.is_some_and(|steps| steps >= upkeep.iter().flatten().count()) {
            return false;
        }
        let quiet = plan.steps().all(|step| matches!(step, Step::Nudge { .. }));
        if quiet {
            self.report(&facts, &plan);
        } else {
            self.remember_quorum(&view);
        }
        let mut left = dies.unwrap_or(usize::MAX);
        for chain in upkeep {
            for step in chain {
                if left == 0 {
                    self.forget();
                    self.down = true;
                    return true;
                }
                left -= 1;
                if !self.step(&step, Answer::Arrives) {
                    break;
                }
            }
        }
        self.pass = rest;
        true
    }

    fn membership_chain(&self) -> Option<usize> {
        let first = |chain: &Vec<Step>| chain.first().is_some_and(Step::is_consensus);
        self.pass.iter().position(first)
    }

    /// The first step of that chain.
    fn act(&mut self, index: usize, answer: Answer) -> bool {
        if index >= self.pass.len() {
            return false;
        }
        let step = self.pass[index].remove(0);
        let goes_on = self.step(&step, answer);
        if !goes_on || self.pass[index].is_empty() {
            self.pass.remove(index);
        }
        true
    }

    /// Time passes while the operator waits.
    fn wait(&mut self, time: SignedDuration) -> bool {
        let open = self
            .proposals
            .iter()
            .any(|open| self.now.duration_since(open.at) + time > PROPOSAL);
        if open || !self.pass.is_empty() {
            return false;
        }
        self.now += Duration::try_from(time).unwrap_or_default();
        if time > MOMENT {
            self.down = false;
        }
        true
    }

    fn add_stranger(&mut self) -> bool {
        let url = "http://elsewhere:2380";
        let there = self.etcd.list.iter().any(|entry| entry.peer_url == url);
        if there || !self.etcd.has_quorum() || !self.etcd.list.iter().all(|entry| !entry.learner) {
            return false;
        }
        self.etcd.list.push(Entry {
            id: Id(0x77),
            name: String::new(),
            peer_url: url.into(),
            learner: true,
        });
        true
    }

    fn happens_to(&mut self, it: &Move, name: &str) -> bool {
        let medium = self.spec.medium;
        if let Some(done) = self.happens_around(it, name) {
            return done;
        }
        let fresh = self.fresh_name("nonce");
        let Some(member) = self.find_mut(name) else {
            return false;
        };
        let had_disk = member.disk.as_ref().is_some_and(|disk| disk.identity.is_some());
        match it {
            Move::LosePod(_) => {
                if member.pod.take().is_none() {
                    return false;
                }
                if medium == Medium::Memory {
                    member.disk = None;
                }
                return true;
            }
            Move::EvictPod(_) => {
                let Some(pod) = member.pod.as_mut().filter(|pod| !pod.deleting) else {
                    return false;
                };
                pod.deleting = true;
                return true;
            }
            Move::DeleteMember(_) => return !std::mem::replace(&mut member.deleting, true),
            _ => {}
        }
        let Some(disk) = &mut member.disk else {
            return false;
        };
        match it {
            Move::LoseDisk(_) if had_disk => *disk = Disk::empty(fresh),
            Move::DamageDisk(_) if disk.started && !disk.damaged => disk.damaged = true,
            Move::HideDisk(_) if disk.started && !disk.unreadable => disk.unreadable = true,
            Move::ShowDisk(_) if disk.unreadable => {
                disk.unreadable = false;
                return true;
            }
            Move::KillEtcd(_) => {}
            _ => return false,
        }
        let Some(member) = self.find_mut(name) else {
            return false;
        };
        let Some(pod) = member.pod.as_mut().filter(|pod| pod.up) else {
            // A volume without a Pod may be lost all the same.
            return !matches!(it, Move::KillEtcd(_));
        };
        let ran = matches!(pod.process, SimProcess::Running | SimProcess::Starting(_));
        pod.process = SimProcess::Held;
        ran || !matches!(it, Move::KillEtcd(_))
    }

    /// What does not touch the member itself.
    fn happens_around(&mut self, it: &Move, name: &str) -> Option<bool> {
        let there = self.find(name).is_some();
        let runs = self.id_of(name).is_some();
        let id = self
            .find(name)
            .and_then(|member| member.disk.as_ref())
            .and_then(Disk::id);
        let put = |names: &mut Vec<String>| {
            let new = there && !names.iter().any(|one| one == name);
            if new {
                names.push(name.to_owned());
                names.sort();
            }
            new
        };
        let take = |names: &mut Vec<String>| {
            let before = names.len();
            names.retain(|one| one != name);
            names.len() < before
        };
        Some(match it {
            Move::Stick(_) => put(&mut self.stuck),
            Move::Unstick(_) => take(&mut self.stuck),
            Move::CutOff(_) => put(&mut self.cut_off),
            Move::Hear(_) => take(&mut self.cut_off),
            Move::Isolate(_) => put(&mut self.isolated),
            Move::Rejoin(_) => take(&mut self.isolated),
            Move::DelayReport(_) => match self.report_of(name) {
                Some(report) if !self.late.contains_key(name) => {
                    self.late.insert(name.to_owned(), (Box::new(report), self.now));
                    true
                }
                _ => false,
            },
            Move::DeliverReport(_) => self.late.remove(name).is_some(),
            Move::RemoveByHand(_) => {
                let id = id.or_else(|| {
                    let url = self.find(name)?.peer_url();
                    self.etcd
                        .list
                        .iter()
                        .find(|entry| entry.peer_url == url)
                        .map(|entry| entry.id)
                });

                id.is_some_and(|id| self.etcd.remove(id).is_ok())
            }
            Move::Lead(_) => {
                let new = id.is_some() && self.etcd.leader.is_some() && self.etcd.leader != id;
                runs && new && id.is_some_and(|id| self.etcd.move_leader(id).is_ok())
            }
            _ => return None,
        })
    }
}

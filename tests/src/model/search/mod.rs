//! Exhaustive search: every order in which a bounded number of faults, the operator's steps and the world's own progress
//! can follow each other, from a few beginnings.
//!
//! A state is the whole model, told from others by its fingerprint ([`Sim::fingerprint`]). In every one of them the
//! invariants hold, and when the faults end there, the target is reached: that is tried by going on calmly, and what is
//! known to end well is not tried again.

pub mod profiles;

use std::{
    collections::HashSet,
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use stateright::{Checker, HasDiscoveries, Model, Property};

pub use profiles::{Fault, PROFILES, Profile};

use super::{moves::Move, planners::Planner, settle::End, world::Sim};

/// A state of the search.
#[derive(Clone, Debug)]
pub struct Node {
    /// The model.
    pub sim: Sim,
    /// Faults that may still happen.
    pub faults: u8,
    /// Edits that may still happen.
    pub edits: u8,
    print: u64,
}

impl Node {
    fn new(sim: Sim, faults: u8, edits: u8) -> Self {
        let print = sim.fingerprint();
        Self {
            sim,
            faults,
            edits,
            print,
        }
    }
}

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.print, self.faults, self.edits).hash(state);
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        (self.print, self.faults, self.edits) == (other.print, other.faults, other.edits)
    }
}

/// What is searched, and with whom as the planner.
pub struct Search {
    profile: Profile,
    planner: Arc<dyn Planner>,
    /// States from which the target is known to be reached.
    good: Vec<Mutex<HashSet<u64>>>,
    agents_replay: bool,
    liveness: bool,
}

/// What a search came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Distinct states.
    pub states: usize,
    /// Moves on the longest of the shortest ways to a state.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// It went through all of them.
    pub complete: bool,
    /// What was found, if anything.
    pub found: Option<Found>,
}

/// A way to a state in which something is wrong.
#[derive(Clone, Debug)]
pub struct Found {
    /// Which property.
    pub property: &'static str,
    /// The moves to it.
    pub moves: Vec<Move>,
    /// The whole story.
    pub story: String,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} does not hold after {} moves:", self.property, self.moves.len())?;
        f.write_str(&self.story)
    }
}

const SHARDS: u64 = 64;
const LIVENESS: &str = "9: with faults ended, the target is reached";

impl Search {
    /// Of that profile, with that planner.
    #[must_use]
    pub fn new(profile: Profile, planner: Arc<dyn Planner>) -> Self {
        Self {
            profile,
            planner,
            good: (0..SHARDS).map(|_| Mutex::default()).collect(),
            agents_replay: false,
            liveness: true,
        }
    }

    /// Without looking where it ends: for planners that are meant to break something else.
    #[must_use]
    pub fn without_liveness(mut self) -> Self {
        self.liveness = false;
        self
    }

    /// With agents that carry out an order again.
    #[must_use]
    pub fn with_replaying_agents(mut self) -> Self {
        self.agents_replay = true;
        self
    }

    /// Goes through all states, or until something is found, or until there are so many.
    #[must_use]
    pub fn run(self, threads: usize, most: Option<usize>) -> Outcome {
        let started = Instant::now();
        let planner = Arc::clone(&self.planner);
        let mut builder = self.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures);
        if let Some(most) = most {
            builder = builder.target_state_count(most);
        }
        let checker = builder.spawn_bfs().join();
        let found = checker.discoveries().into_iter().map(|(property, path)| {
            let first = path.clone().into_vec().into_iter().next();
            let moves = path.into_actions();
            let story = first.map_or_else(String::new, |(node, _)| story(node.sim, &moves, planner.as_ref()));
            Found { property, moves, story }
        });
        let found = found.min_by_key(|found| found.moves.len());
        let states = checker.unique_state_count();
        Outcome {
            states,
            depth: checker.max_depth(),
            took: started.elapsed(),
            complete: found.is_none() && most.is_none_or(|most| checker.state_count() < most),
            found,
        }
    }

    fn shard(&self, print: u64) -> &Mutex<HashSet<u64>> {
        &self.good[usize::try_from(print % SHARDS).unwrap_or(0)]
    }

    fn is_good(&self, print: u64) -> bool {
        let shard = self.shard(print).lock();
        shard.unwrap_or_else(PoisonError::into_inner).contains(&print)
    }

    /// With faults ended, the target is reached from here.
    fn ends_well(&self, node: &Node) -> bool {
        if !self.liveness || node.sim.violation.is_some() {
            return true;
        }
        let mut sim = node.sim.clone();
        sim.heal();
        if !sim.can_be_whole() {
            return true;
        }
        let mut way = Vec::new();
        let end = sim.settle_calmly(self.planner.as_ref(), &mut |sim| {
            let print = sim.fingerprint();
            let good = self.is_good(print);
            if !good {
                way.push(print);
            }
            good
        });
        // Broken on the way: the search comes there by itself.
        if end != End::Whole && sim.violation.is_none() {
            return false;
        }
        for print in way {
            let shard = self.shard(print).lock();
            shard.unwrap_or_else(PoisonError::into_inner).insert(print);
        }
        true
    }
}

/// The moves again, with all that the operator does, and then what happens without faults.
fn story(mut sim: Sim, moves: &[Move], planner: &dyn Planner) -> String {
    sim.logging = true;
    sim.log.clear();
    for (number, it) in moves.iter().enumerate() {
        sim.log.push(format!("{:>3} {it}", number + 1));
        sim.perform(it, planner);
    }
    if sim.violation.is_none() {
        sim.log.push("--- faults end".into());
        sim.heal();
        let end = sim.settle_calmly(planner, &mut |_| false);
        sim.log.push(format!("--- {end:?}"));
        let waits = sim.plan_now().waits;
        sim.log
            .extend(waits.into_iter().map(|wait| format!("waits: {}", wait.message)));
        let state = sim.describe();
        sim.log.push(state);
    }
    sim.log.join("\n")
}

fn keeps(node: &Node, invariant: u8) -> bool {
    node.sim
        .violation
        .as_ref()
        .is_none_or(|violation| violation.invariant != invariant)
}

impl Model for Search {
    type State = Node;
    type Action = Move;

    fn init_states(&self) -> Vec<Node> {
        let mut starts = self.profile.starts();
        for sim in &mut starts {
            sim.agents_replay = self.agents_replay;
        }
        let profile = &self.profile;
        starts
            .into_iter()
            .map(|sim| Node::new(sim, profile.faults, profile.edits))
            .collect()
    }

    fn actions(&self, node: &Node, moves: &mut Vec<Move>) {
        if node.sim.violation.is_some() {
            return;
        }
        Profile::calm(node, moves);
        if node.faults > 0 {
            self.profile.faulty(&node.sim, moves);
        }
        if node.edits > 0 {
            let sizes = self.profile.sizes.iter().copied();
            moves.extend(sizes.filter(|size| *size != node.sim.spec.replicas).map(Move::Scale));
        }
    }

    fn next_state(&self, node: &Node, it: Move) -> Option<Node> {
        let mut sim = node.sim.clone();
        if !sim.perform(&it, self.planner.as_ref()) {
            return None;
        }
        let (mut faults, mut edits) = (node.faults, node.edits);
        match it {
            Move::Scale(_) => edits -= 1,
            ref other if Profile::is_fault(other) => faults -= 1,
            _ => {}
        }
        Some(Node::new(sim, faults, edits))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("1: one change of membership at a time", |_, node| keeps(node, 1)),
            Property::always("2: no step of ours ends the quorum", |_, node| keeps(node, 2)),
            Property::always(
                "3: a learner that has caught up is promoted, and none serves as a voter",
                |_, node| keeps(node, 3),
            ),
            Property::always("4: `new` once an incarnation, recorded before", |_, node| {
                keeps(node, 4)
            }),
            Property::always("5: an ID starts on one directory", |_, node| keeps(node, 5)),
            Property::always("6: what may be the last copy is not deleted", |_, node| keeps(node, 6)),
            Property::always("7: unknown is not absent", |_, node| keeps(node, 7)),
            Property::always("8: nothing is said to be better than it is", |_, node| keeps(node, 8)),
            Property::always("12: no order that makes history is replayed", |_, node| keeps(node, 12)),
            Property::always(LIVENESS, Self::ends_well),
        ]
    }
}

//! Scripts: what happens to a cluster, one readable step a line, and what is expected of it.
//!
//! ```text
//! # A lost Pod of a disk member comes back without a membership call.
//! cluster 3 3.6.16 disk
//! settle
//! lose-pod c-002
//! settle
//! expect voters=3 learners=0 calls=2
//! ```
//!
//! Steps are those of [`Move`], and besides:
//!
//! * `cluster SIZE VERSION disk|memory`: where it begins, an `EtcdCluster` that nobody has looked at yet
//! * `turn`: the operator looks and carries its whole plan out, then everybody goes one step on
//! * `settle`: no faults from here until the operator has nothing left to do; fails when the target is not reached
//! * `rest`: the same, wherever it ends
//! * `heal`: what was cut off, stuck or delayed is no longer
//! * `end`: `heal`, and then `settle`, or `rest` where no quorum has its data any more
//! * `expect KEY=VALUE ...`: `voters`, `learners`, `members`, `pods`, `calls` (changes of membership and leadership asked
//!   for since the last `expect` of them), `quorum=yes|no`, `whole=yes|no`
//! * `expect wait TEXT`: the operator waits for something whose message has that text
//!
//! An empty line and one that begins with `#` do nothing.

use std::fmt;

use operator::plan::facts::{Medium, Version};

use super::{
    moves::Move,
    planners::{Planner, Real},
    settle::End,
    world::{Sim, SimProcess},
};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Says something to the reader.
    Comment(String),
    /// Where it begins.
    Cluster {
        /// Its size.
        replicas: u32,
        /// Its version.
        version: Version,
        /// Where its data are.
        medium: Medium,
    },
    /// Something happens.
    Move(Move),
    /// A pass, and then everybody goes on.
    Turn,
    /// No faults until it is whole.
    Settle,
    /// No faults until it rests.
    Rest,
    /// Faults that last end.
    Heal,
    /// `heal`, and then `settle`, or `rest` where no quorum has its data any more.
    End,
    /// A number or a word of the state.
    Expect(Vec<(String, String)>),
    /// Words of what is waited for.
    ExpectWait(String),
}

/// A script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script(pub Vec<Line>);

/// A script that cannot be read, or does not end as it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What happened until then.
    pub transcript: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nline {}: {}", self.transcript, self.line, self.what)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Comment(text) => f.write_str(text),
            Self::Cluster {
                replicas,
                version,
                medium,
            } => {
                let medium = match medium {
                    Medium::Disk => "disk",
                    Medium::Memory => "memory",
                };
                write!(f, "cluster {replicas} {version} {medium}")
            }
            Self::Move(it) => it.fmt(f),
            Self::Turn => f.write_str("turn"),
            Self::Settle => f.write_str("settle"),
            Self::Rest => f.write_str("rest"),
            Self::Heal => f.write_str("heal"),
            Self::End => f.write_str("end"),
            Self::Expect(pairs) => {
                let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, "expect {}", pairs.join(" "))
            }
            Self::ExpectWait(text) => write!(f, "expect wait {text}"),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl Line {
    /// Reads one line.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return Some(Self::Comment(text.to_owned()));
        }
        if let Some(rest) = text.strip_prefix("cluster ") {
            let mut words = rest.split_whitespace();
            let replicas = words.next()?.parse().ok()?;
            let version = Version::parse(words.next()?)?;
            let medium = match words.next()? {
                "disk" => Medium::Disk,
                "memory" => Medium::Memory,
                _ => return None,
            };
            return Some(Self::Cluster {
                replicas,
                version,
                medium,
            });
        }
        if let Some(words) = text.strip_prefix("expect wait ") {
            return Some(Self::ExpectWait(words.to_owned()));
        }
        if let Some(pairs) = text.strip_prefix("expect ") {
            let pair = |pair: &str| {
                let (key, value) = pair.split_once('=')?;
                Some((key.to_owned(), value.to_owned()))
            };
            return pairs
                .split_whitespace()
                .map(pair)
                .collect::<Option<_>>()
                .map(Self::Expect);
        }
        match text {
            "turn" => Some(Self::Turn),
            "settle" => Some(Self::Settle),
            "rest" => Some(Self::Rest),
            "heal" => Some(Self::Heal),
            "end" => Some(Self::End),
            other => Move::parse(other).map(Self::Move),
        }
    }
}

impl Script {
    /// Reads a whole script.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let line = |(number, line): (usize, &str)| {
            Line::parse(line).ok_or_else(|| Failure {
                line: number + 1,
                what: format!("{line:?} is no step"),
                transcript: String::new(),
            })
        };
        text.lines().enumerate().map(line).collect::<Result<_, _>>().map(Self)
    }

    /// Runs it with the operator's planner: what happened, each step with what the operator did in it.
    pub fn run(&self) -> Result<String, Failure> {
        self.run_with(&Real)
    }

    /// The same with another planner.
    pub fn run_with(&self, planner: &dyn Planner) -> Result<String, Failure> {
        let mut run = Run {
            sim: Sim::new(3, "3.6.16", Medium::Disk),
            transcript: String::new(),
            calls: 0,
        };
        run.sim.leader_index = true;
        for (number, line) in self.0.iter().enumerate() {
            run.transcript.extend([&line.to_string(), "\n"]);
            run.sim.log.clear();
            let mut result = run.line(line, planner);
            for said in &run.sim.log {
                run.transcript.extend([said.trim_end(), "\n"]);
            }
            if let (Ok(()), Some(broken)) = (&result, &run.sim.violation) {
                result = Err(format!("invariant {}: {}", broken.invariant, broken.what));
            }
            if let Err(what) = result {
                return Err(Failure {
                    line: number + 1,
                    what,
                    transcript: run.transcript,
                });
            }
        }
        Ok(run.transcript)
    }
}

struct Run {
    sim: Sim,
    transcript: String,
    calls: usize,
}

impl Run {
    fn line(&mut self, line: &Line, planner: &dyn Planner) -> Result<(), String> {
        let sim = &mut self.sim;
        match line {
            Line::Comment(_) => {}
            Line::Cluster {
                replicas,
                version,
                medium,
            } => {
                *sim = Sim::new(*replicas, &version.to_string(), *medium);
                sim.leader_index = true;
            }
            Line::Move(it) => {
                if !sim.perform(it, planner) {
                    sim.log.push("      (not possible now)".into());
                }
            }
            Line::Turn => sim.whole_turn(planner),
            Line::Heal => sim.heal(),
            Line::Settle => return settle(sim, planner),
            Line::Rest => return rest(sim, planner),
            Line::End => {
                sim.heal();
                return if sim.can_be_whole() {
                    settle(sim, planner)
                } else {
                    rest(sim, planner)
                };
            }
            Line::Expect(pairs) => {
                for (key, value) in pairs {
                    let found = self.value(key).ok_or_else(|| format!("nothing is called {key}"))?;
                    if found != *value {
                        return Err(format!("{key} is {found}\n{}", self.sim.describe()));
                    }
                }
            }
            Line::ExpectWait(text) => {
                let waits = waits(sim);
                if !waits.contains(text.as_str()) {
                    return Err(format!("it waits for: {waits}"));
                }
            }
        }
        Ok(())
    }

    fn value(&mut self, key: &str) -> Option<String> {
        let sim = &self.sim;
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        Some(match key {
            "voters" => sim.voters().to_string(),
            "learners" => (sim.etcd.list.len() - sim.voters()).to_string(),
            "members" => sim.members.len().to_string(),
            "pods" => {
                let runs = |process: &SimProcess| *process == SimProcess::Running;
                let pods = sim.members.iter().filter_map(|member| member.pod.as_ref());
                pods.filter(|pod| runs(&pod.process)).count().to_string()
            }
            "calls" => {
                let calls = sim.consensus_calls - self.calls;
                self.calls = sim.consensus_calls;
                calls.to_string()
            }
            "quorum" => yes(sim.etcd.has_quorum()),
            "whole" => yes(sim.is_right()),
            _ => return None,
        })
    }
}

fn settle(sim: &mut Sim, planner: &dyn Planner) -> Result<(), String> {
    match sim.settle_calmly(planner, &mut |_| false) {
        End::Whole => Ok(()),
        end @ (End::Stuck | End::Restless) => Err(format!("{end:?}: {}\n{}", waits(sim), sim.describe())),
    }
}

fn rest(sim: &mut Sim, planner: &dyn Planner) -> Result<(), String> {
    match sim.settle_calmly(planner, &mut |_| false) {
        End::Whole | End::Stuck => Ok(()),
        End::Restless => Err("it does not come to rest".into()),
    }
}

fn waits(sim: &Sim) -> String {
    let waits = sim.plan_now().waits;
    let messages: Vec<String> = waits.into_iter().map(|wait| wait.message).collect();
    messages.join("; ")
}

impl Sim {
    /// The operator looks and acts, then each member goes one step on.
    pub fn whole_turn(&mut self, planner: &dyn Planner) {
        self.perform(&Move::Look, planner);
        while self.perform(&Move::Act, planner) {}
        for name in self.names() {
            self.perform(&Move::Go(name), planner);
        }
    }
}

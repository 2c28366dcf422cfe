//! A trace: each step is done by the model and by real etcds, and must come out the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use operator::plan::facts::Id;
use tests::model::etcd::{Change, Etcd, No};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    call::{self, Outcome},
    choose::{Op, Options},
    network::Network,
    process::Node,
};

const TOKEN: &str = "conformance";

/// `max-learners` where it can be chosen: low, so that it is met.
const MAX_LEARNERS: usize = 2;

/// etcd's 5 s, and what its and our clocks may differ on a busy machine.
const CERTAINLY_YOUNG: Duration = Duration::from_millis(4200);
const CERTAINLY_OLD: Duration = Duration::from_millis(5700);

/// Until all that follows from a step must have come about.
const PATIENCE: Duration = Duration::from_secs(45);

/// New members of one trace.
const MEMBERS: usize = 40;

pub(crate) struct Run {
    binary: PathBuf,
    network: Network,
    nodes: Vec<Node>,
    slots: BTreeMap<Id, usize>,
    model: Etcd,
    max_learners: Option<usize>,
    may_update_wrongly: bool,
    /// When the connection of each young pair came about: between these two.
    ages: BTreeMap<(Id, Id), (Instant, Instant)>,
    /// The last index that the leader knows each to have reached.
    reached: BTreeMap<Id, u64>,
    /// Whom each knew when it last had a leader.
    knew: BTreeMap<Id, Vec<Id>>,
    /// Started or connected again, and not yet seen to serve and to know what the others know.
    fresh: BTreeSet<Id>,
    /// Members of the list of a cut that were running then.
    witnesses: Option<Vec<Id>>,
    /// Who is cut off.
    far: Vec<Id>,
    removed: Vec<Id>,
    pub(crate) story: Vec<String>,
    pub(crate) steps: BTreeMap<String, usize>,
}

impl Run {
    pub(crate) async fn new(version: &str) -> Result<Self> {
        let network = Network::new();
        let mut node = Node::new(&network, 0);
        let max_learners = (!version.starts_with("3.5.")).then_some(MAX_LEARNERS);
        let initial = format!("{}={}", node.name, node.peer_url);
        let binary = tests::kube::Binaries::etcd(version)?;
        let urls = [node.peer_url.clone()];
        let id = etcd::member_id(&urls, TOKEN);
        node.start(&binary, "new", &initial, TOKEN, max_learners);
        network.is(id.0, 0);
        let mut model = Etcd::default();
        model.max_learners = max_learners.unwrap_or(1);
        model.publish(Id(id.0), Id(etcd::cluster_id(&[id]).0), &node.name, &node.peer_url);
        model.set_running(vec![Id(id.0)]);
        let mut run = Self {
            binary,
            network,
            nodes: vec![node],
            slots: BTreeMap::from([(Id(id.0), 0)]),
            model,
            max_learners,
            may_update_wrongly: !version.starts_with("3.7."),
            ages: BTreeMap::new(),
            reached: BTreeMap::new(),
            knew: BTreeMap::new(),
            fresh: BTreeSet::from([Id(id.0)]),
            witnesses: None,
            far: Vec::new(),
            removed: Vec::new(),
            story: Vec::new(),
            steps: BTreeMap::new(),
        };
        run.converge(Instant::now()).await?;
        Ok(run)
    }

    pub(crate) async fn random_step(&mut self, random: &mut fastrand::Rng) -> Result<()> {
        let listed = |id: &Id| self.model.entry(*id).is_some() && !self.fresh.contains(id);
        let witness = |id: &Id| self.witnesses.as_ref().is_none_or(|all| all.contains(id));
        let running = self.model.running.iter().copied();
        let options = Options {
            model: &self.model,
            answers: running.filter(|id| listed(id) && witness(id)).collect(),
            removed: &self.removed,
            ghosts: self.removed.iter().copied().filter(|id| self.is_ghost(*id)).collect(),
            is_cut: self.witnesses.is_some(),
            is_stale: self.model.running.iter().any(|id| self.fresh.contains(id)),
            may_add: self.nodes.len() < MEMBERS,
            may_update_wrongly: self.may_update_wrongly,
        };
        let op = options.choose(random);
        self.step(op).await
    }

    /// It does not run, and somebody whom it knows would tell it that it was removed.
    fn is_ghost(&self, id: Id) -> bool {
        !self.model.running.contains(&id) && self.nodes[self.slots[&id]].has_data && self.is_told(id)
    }

    fn is_told(&self, id: Id) -> bool {
        let tells = |of: &&Id| self.model.entry(**of).is_some() && self.model.follows(**of);
        self.knew
            .get(&id)
            .is_some_and(|known| known.iter().any(|of| tells(&of)))
    }

    /// Everything runs again, and is connected, and has a quorum.
    pub(crate) async fn end(&mut self) -> Result<()> {
        self.step(Op::Heal).await?;
        let stopped = |run: &Self| {
            let ids = run.model.list.iter().map(|entry| entry.id);
            let ids = ids.filter(|id| !run.model.running.contains(id));
            // Those who need nobody first.
            ids.min_by_key(|id| !run.nodes[run.slots[id]].has_data)
        };
        while let Some(id) = stopped(self) {
            self.step(Op::Start(id)).await?;
        }
        ensure!(self.model.has_quorum(), "all run, and there is no quorum");
        for id in self.model.running.clone() {
            self.step(Op::List(id)).await?;
        }
        Ok(())
    }

    async fn step(&mut self, op: Op) -> Result<()> {
        let op_said = format!("{op}");
        self.story.push(String::new());
        let at = self.story.len() - 1;
        let start = Instant::now();
        let answer = self.carry_out(op).await;
        // Names are known only now: a new member gets its ID by being added.
        let line = self.named(&op_said);
        self.story[at].clone_from(&line);
        let answer = answer.with_context(|| line.clone())?;
        self.story[at] = format!("{line} -> {answer}");
        *self.steps.entry(answer).or_default() += 1;
        self.converge(start).await.with_context(|| format!("after {line}"))
    }

    /// With names in place of IDs and URLs.
    fn named(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (id, slot) in &self.slots {
            let node = &self.nodes[*slot];
            text = text.replace(&id.to_string(), &node.name);
            text = text.replace(&format!("{id:?}"), &node.name);
            text = text.replace(&node.peer_url, &format!("URL of {}", node.name));
        }
        text
    }

    async fn carry_out(&mut self, op: Op) -> Result<String> {
        Ok(match op {
            Op::Ask(via, change) => self.ask(via, change).await?,
            Op::AddNew(via, learner) => {
                let slot = self.nodes.len();
                self.nodes.push(Node::new(&self.network, slot));
                let url = self.nodes[slot].peer_url.clone();
                let change = if learner {
                    Change::AddLearner(url)
                } else {
                    Change::AddVoter(url)
                };
                self.ask(via, change).await?
            }
            Op::MoveLeader(via, to) => {
                let mut model = self.model.clone();
                let wanted = model.move_leader_at(via, to).map(|()| None);
                let found = call::move_leader(self.node(via), to).await;
                same(wanted, found)?;
                if found.is_ok() {
                    self.model = model;
                }
                said(found)
            }
            Op::List(via) => {
                let wanted = self.model.members_at(via).map(<[_]>::to_vec);
                let found = call::members(self.node(via)).await;
                match (wanted, found) {
                    (Ok(_), Ok(found)) => self.is_the_list(&found)?,
                    (Err(wanted), Err(found)) => same(Err(wanted), Err(found))?,
                    (wanted, found) => bail!("the model says {wanted:?}, etcd {found:?}"),
                }
                "listed".into()
            }
            Op::Start(id) => self.start(id),
            Op::Stop(id) => {
                self.node_mut(id).kill();
                self.fresh.remove(&id);
                self.runs(id, false);
                "stopped".into()
            }
            Op::Cut(far) => {
                let slots: Vec<usize> = far.iter().map(|id| self.slots[id]).collect();
                self.network.cut(&slots);
                self.witnesses = Some(self.model.running.clone());
                self.far.clone_from(&far);
                self.model.cut(far);
                "cut".into()
            }
            Op::Heal => {
                self.network.cut(&[]);
                self.witnesses = None;
                // Without a leader nobody tells those who were cut off what has changed.
                self.fresh.extend(std::mem::take(&mut self.far));
                self.model.heal();
                "healed".into()
            }
            Op::Settle => {
                let last = self.ages.values().map(|(_, end)| *end + CERTAINLY_OLD).max();
                if let Some(last) = last {
                    sleep_until(last).await;
                }
                self.model.grow_old();
                "old".into()
            }
            Op::Write => {
                self.write().await?;
                "written".into()
            }
        })
    }

    /// Raft entries, a third more than there are.
    async fn write(&mut self) -> Result<()> {
        let leader = self.model.leader.context("nobody leads")?;
        let admin = self.node(leader).admin().await;
        for _ in 0..self.model.index / 6 + 5 {
            admin.nudge().await?;
        }
        Ok(())
    }

    async fn ask(&mut self, via: Id, mut change: Change) -> Result<String> {
        if let Change::Promote { id, reached } = &mut change {
            // At the very border the model and the member must not count differently by one.
            *reached = self.reached.get(id).copied().unwrap_or(0);
            let border = (*reached * 10).abs_diff(self.model.index * 9) <= 30;
            if border && !self.model.follows(*id) && self.model.leader.is_some() {
                self.write().await?;
                self.converge(Instant::now()).await?;
            }
        }
        self.mind_ages(via).await;
        let mut model = self.model.clone();
        let wanted = model.ask(via, &change).map(|()| None);
        let mut found = call::ask(self.node(via), &change).await;
        if wanted.is_ok() && found == Err(No::Refused(etcd::Refusal::UnhealthyCluster)) {
            // A connection that broke for a moment is young again, which only etcd knows.
            self.story
                .push("  (unhealthy; once more when all connections are certainly old)".into());
            sleep(CERTAINLY_OLD).await;
            found = call::ask(self.node(via), &change).await;
        }
        same(wanted, found)?;
        let Ok(added) = found else { return Ok(said(found)) };
        self.model = model;
        match (change, added) {
            (Change::AddLearner(_) | Change::AddVoter(_), Some(id)) => {
                let slot = self.nodes.len() - 1;
                self.model.list.last_mut().context("nothing was added")?.id = id;
                self.slots.insert(id, slot);
                self.network.is(id.0, slot);
            }
            (Change::AddLearner(_) | Change::AddVoter(_), None) => bail!("an added member without an ID"),
            (Change::Remove(id), _) => self.removed.push(id),
            (Change::Promote { .. } | Change::Update(..), _) => {}
        }
        Ok(said(found))
    }

    /// Waits where nobody can tell whether a connection is 5 s old.
    async fn mind_ages(&mut self, via: Id) {
        for pair in self.model.young.clone() {
            let Some((start, end)) = self.ages.get(&pair).copied() else {
                continue;
            };
            if (pair.0 != via && pair.1 != via) || start.elapsed() < CERTAINLY_YOUNG {
                continue;
            }
            sleep_until(end + CERTAINLY_OLD).await;
            self.model.young.retain(|young| *young != pair);
        }
    }

    fn start(&mut self, id: Id) -> String {
        let slot = self.slots[&id];
        let others = self.model.list.iter().filter(|entry| entry.id != id);
        let others = others.map(|entry| {
            let name = &self.nodes[self.slots[&entry.id]].name;
            format!("{name}={}", entry.peer_url)
        });
        let own = format!("{}={}", self.nodes[slot].name, self.nodes[slot].peer_url);
        let initial: Vec<String> = others.chain([own]).collect();
        let is_new = !self.nodes[slot].has_data;
        self.nodes[slot].start(&self.binary, "existing", &initial.join(","), TOKEN, self.max_learners);
        if self.model.entry(id).is_some() {
            self.fresh.insert(id);
            self.runs(id, true);
            if is_new { "joins" } else { "runs again" }.into()
        } else {
            // It must end by itself: `converge` waits for that.
            self.model.running.push(id);
            self.model.running.sort_unstable();
            "removed, tries to run".into()
        }
    }

    fn runs(&mut self, id: Id, now: bool) {
        let mut running = self.model.running.clone();
        running.retain(|one| *one != id);
        if now {
            running.push(id);
            running.sort_unstable();
        }
        self.model.set_running(running);
    }

    fn node(&self, id: Id) -> &Node {
        &self.nodes[self.slots[&id]]
    }

    fn node_mut(&mut self, id: Id) -> &mut Node {
        let slot = self.slots[&id];
        &mut self.nodes[slot]
    }

    fn is_the_list(&self, found: &[(Id, String, String, bool)]) -> Result<()> {
        let members = self.model.list.iter();
        let mut wanted: Vec<(Id, String, String, bool)> = members
            .map(|entry| (entry.id, entry.name.clone(), entry.peer_url.clone(), entry.learner))
            .collect();
        wanted.sort_unstable();
        ensure!(wanted == found, "the model lists {wanted:?}, etcd {found:?}");
        Ok(())
    }

    /// Waits until the real ones are as the model says, and takes over what the model leaves to chance: who leads, and
    /// how far the log is.
    async fn converge(&mut self, start: Instant) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Err(error) = self.is_as_modelled().await else { break };
            if Instant::now() > deadline {
                let words = self.nodes.iter().map(|n| format!("{}: {}", n.name, n.last_words()));
                let words: Vec<String> = words.collect();
                let error = self.named(&format!("{error:#}"));
                bail!("still, after {} s: {error}\n{}", PATIENCE.as_secs(), words.join("\n"));
            }
            sleep(Duration::from_millis(60)).await;
        }
        let end = Instant::now();
        self.ages.retain(|pair, _| self.model.young.contains(pair));
        for pair in &self.model.young {
            self.ages.entry(*pair).or_insert((start, end));
        }
        Ok(())
    }

    async fn is_as_modelled(&mut self) -> Result<()> {
        let mut pages = BTreeMap::new();
        for id in self.model.running.clone() {
            let listed = self.model.entry(id).is_some();
            let runs = self.node_mut(id).runs();
            if !listed && !runs {
                // Removed, and so it has ended.
                self.runs(id, false);
                continue;
            }
            ensure!(runs, "{id} has ended");
            if !listed {
                let tells = self.is_told(id) && self.model.follows(id);
                ensure!(!tells, "{id} still runs, though it was removed");
                continue;
            }
            let page = self.node(id).page().await;
            pages.insert(id, page.with_context(|| format!("{id} does not answer"))?);
        }
        let leaders: Vec<Id> = pages
            .iter()
            .filter(|(_, page)| page.leads())
            .map(|(id, _)| *id)
            .collect();
        match (leaders[..].as_ref(), self.model.leader) {
            ([], None) => {}
            ([one], Some(_)) if self.model.may_lead(*one) => self.model.lead(*one),
            (leaders, wanted) => bail!("{leaders:?} lead, the model says {wanted:?}"),
        }
        for (id, page) in &pages {
            for peer in &self.model.list {
                let wanted = self.model.connected(*id, peer.id);
                // Without a leader it may not yet know that the other one is a member.
                let open = wanted && !(self.model.follows(*id) && self.model.follows(peer.id));
                ensure!(
                    peer.id == *id || open || page.is_connected(id.0, peer.id.0) == wanted,
                    "{id} should have a connection with {}: {wanted}",
                    peer.id
                );
            }
            // One that takes itself for a learner never gives its leader up.
            let mut known = self.model.view(*id).iter();
            let learner = known.any(|entry| entry.id == *id && entry.learner);
            ensure!(
                learner || page.has_leader() == self.model.follows(*id),
                "{id} knows a leader: {}",
                page.has_leader()
            );
        }
        let Some(leader) = self.model.leader else { return Ok(()) };
        let index = pages[&leader].committed();
        pages.retain(|id, _| self.model.follows(*id));
        for (id, page) in &pages {
            ensure!(
                page.applied() == index,
                "{id} has applied {} of {index}",
                page.applied()
            );
            if self.fresh.contains(id) {
                self.node(*id).admin().await.status().await?;
                let (name, url) = (self.node(*id).name.clone(), self.node(*id).peer_url.clone());
                self.model.publish(*id, Id(0), &name, &url);
                self.fresh.remove(id);
            }
            self.reached.insert(*id, index);
            self.knew
                .insert(*id, self.model.list.iter().map(|entry| entry.id).collect());
        }
        self.model.index = index;
        let found = call::members(self.node(leader)).await;
        self.is_the_list(&found.map_err(|no| anyhow::anyhow!("{no:?}"))?)
    }
}

fn same(wanted: Outcome, found: Outcome) -> Result<()> {
    ensure!(
        wanted.map(drop) == found.map(drop),
        "the model says {}, etcd {}",
        said(wanted),
        said(found)
    );
    Ok(())
}

fn said(outcome: Outcome) -> String {
    match outcome {
        Ok(_) => "done".into(),
        Err(No::NoAnswer) => "no answer".into(),
        Err(No::Refused(refusal)) => format!("{refusal:?}"),
    }
}

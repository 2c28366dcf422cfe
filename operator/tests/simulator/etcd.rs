//! etcd's membership as one truth, and what it refuses.

use operator::plan::facts::Id;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub id: Id,
    pub name: String,
    pub peer_url: String,
    pub learner: bool,
}

#[derive(Default)]
pub(crate) struct Etcd {
    pub cluster_id: Option<Id>,
    pub list: Vec<Entry>,
    pub index: u64,
    pub next_id: u64,
    pub max_learners: usize,
    /// Every change of membership is refused so.
    pub refuses: Option<String>,
    /// IDs that run, serve and are connected now.
    pub running: Vec<Id>,
}

impl Etcd {
    pub(crate) fn formed(&self) -> bool {
        self.cluster_id.is_some()
    }

    pub(crate) fn voters(&self) -> usize {
        self.list.iter().filter(|entry| !entry.learner).count()
    }

    pub(crate) fn healthy(&self) -> usize {
        self.list
            .iter()
            .filter(|entry| !entry.learner && self.running.contains(&entry.id))
            .count()
    }

    pub(crate) fn has_quorum(&self) -> bool {
        self.formed() && self.healthy() > self.voters() / 2
    }

    /// A member announces itself; the first one makes the cluster.
    pub(crate) fn publish(&mut self, id: Id, cluster: Id, name: &str, peer_url: &str) {
        if self.cluster_id.is_none() {
            self.cluster_id = Some(cluster);
            self.index = 10;
            self.list.push(Entry {
                id,
                name: name.into(),
                peer_url: peer_url.into(),
                learner: false,
            });
        }
        if let Some(entry) = self.list.iter_mut().find(|entry| entry.id == id) {
            name.clone_into(&mut entry.name);
        }
    }

    pub(crate) fn add_learner(&mut self, peer_url: &str) -> Result<(), String> {
        self.writable()?;
        if self.list.iter().filter(|entry| entry.learner).count() >= self.max_learners {
            return Err("too many learner members in cluster".into());
        }
        if self.list.iter().any(|entry| entry.peer_url == peer_url) {
            return Err("peer URL exists".into());
        }
        if self.voters() > 1
            && self.healthy() < self.voters().div_ceil(2) + usize::from(self.voters().is_multiple_of(2))
        {
            return Err("unhealthy cluster".into());
        }
        self.next_id += 1;
        let id = Id(0xa000 + self.next_id);
        self.list.push(Entry {
            id,
            name: String::new(),
            peer_url: peer_url.into(),
            learner: true,
        });
        self.index += 1;
        Ok(())
    }

    pub(crate) fn promote(&mut self, id: Id) -> Result<(), String> {
        self.writable()?;
        let running = self.running.contains(&id);
        let entry = self
            .list
            .iter_mut()
            .find(|entry| entry.id == id)
            .ok_or("member not found")?;
        if !entry.learner {
            return Err("can only promote a learner member".into());
        }
        if entry.name.is_empty() || !running {
            return Err("can only promote a learner member which is in sync with leader".into());
        }
        entry.learner = false;
        self.index += 1;
        Ok(())
    }

    pub(crate) fn remove(&mut self, id: Id) -> Result<(), String> {
        self.writable()?;
        let entry = self
            .list
            .iter()
            .find(|entry| entry.id == id)
            .cloned()
            .ok_or("member not found")?;
        if !entry.learner {
            let left = self.voters() - 1;
            let healthy = self.healthy() - usize::from(self.running.contains(&id));
            if left == 0 || healthy <= left / 2 {
                return Err("unhealthy cluster".into());
            }
        }
        self.list.retain(|entry| entry.id != id);
        self.index += 1;
        Ok(())
    }

    fn writable(&self) -> Result<(), String> {
        if let Some(message) = &self.refuses {
            return Err(message.clone());
        }
        if self.has_quorum() {
            Ok(())
        } else {
            Err("no quorum".into())
        }
    }
}

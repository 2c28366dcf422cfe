//! Clients that read and write all the time, each a little of everything, and note all of it.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Result, bail};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{History, Operation, Outcome, What};
use crate::{
    harness::{Etcd, Stage},
    kube::Place,
};

/// Registers in use at one time.
const WIDTH: usize = 4;

/// Operations, of all clients, until other registers are used: what has too many operations takes too long to check.
const DEPTH: usize = 400;

/// Longest wait for an answer. What comes later is not known.
const PATIENCE: Duration = Duration::from_secs(3);

/// A connection stays with the member that the Service has led it to; all of them are to be met.
const OPERATIONS_A_CONNECTION: usize = 60;

/// Clients of one Service.
pub struct Clients {
    history: Arc<History>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    stage: Arc<Stage>,
    from: Place,
    service: SocketAddr,
    count: usize,
}

impl Clients {
    /// Starts so many clients of a Service's address. `seed` chooses what they do.
    #[must_use]
    pub fn start(stage: &Arc<Stage>, from: Place, service: SocketAddr, count: usize, seed: u64) -> Self {
        let history = Arc::new(History::default());
        let (stop, stopped) = watch::channel(false);
        let done = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for number in 0..count {
            let client = Client {
                number,
                stage: stage.clone(),
                from,
                service,
                history: history.clone(),
                done: done.clone(),
                random: fastrand::Rng::with_seed(seed.wrapping_add(number as u64)),
                written: 0,
                last: None,
            };
            tasks.spawn(client.run(stopped.clone()));
        }
        Self {
            history,
            stop,
            tasks,
            stage: stage.clone(),
            from,
            service,
            count,
        }
    }

    /// What has been asked and answered so far.
    #[must_use]
    pub fn so_far(&self) -> Vec<Operation> {
        self.history.operations()
    }

    /// Stops them, and reads every register once more: what was acknowledged must still be there.
    pub async fn stop(mut self) -> Result<Vec<Operation>> {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            ended?;
        }
        let mut keys: Vec<String> = self.history.operations().into_iter().map(|op| op.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut etcd = Etcd::connect(&self.stage.kube, self.from, self.service).await?;
        for key in keys {
            let call = self.history.now();
            let found = etcd.get(&key).await?;
            self.history.add(Operation {
                client: self.count,
                key,
                what: What::Get { found },
                outcome: Outcome::Ok,
                call,
                end: self.history.now(),
            });
        }
        let operations = self.history.operations();
        if !operations.iter().any(|operation| operation.outcome == Outcome::Ok) {
            bail!("not one of {} operations was answered", operations.len());
        }
        Ok(operations)
    }
}

struct Client {
    number: usize,
    stage: Arc<Stage>,
    from: Place,
    service: SocketAddr,
    history: Arc<History>,
    done: Arc<AtomicUsize>,
    random: fastrand::Rng,
    written: usize,
    /// Register and value that it has seen last.
    last: Option<(String, Option<String>)>,
}

impl Client {
    async fn run(mut self, stopped: watch::Receiver<bool>) {
        let mut connection = None;
        while !*stopped.borrow() {
            let kept = match connection.take() {
                Some(kept) => Some(kept),
                None => self.connect().await,
            };
            let Some((mut etcd, left)) = kept else {
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            let outcome = self.operation(&mut etcd).await;
            if outcome == Outcome::Ok && left > 0 {
                connection = Some((etcd, left - 1));
            }
            sleep(Duration::from_millis(10 + self.random.u64(..20))).await;
        }
    }

    async fn connect(&self) -> Option<(Etcd, usize)> {
        let etcd = Etcd::connect(&self.stage.kube, self.from, self.service).await;
        etcd.ok().map(|etcd| (etcd, OPERATIONS_A_CONNECTION))
    }

    async fn operation(&mut self, etcd: &mut Etcd) -> Outcome {
        let generation = self.done.fetch_add(1, Relaxed) / DEPTH;
        let key = format!("register/{generation:05}/{}", self.random.usize(..WIDTH));
        let seen = self.last.take().filter(|(of, _)| *of == key).map(|(_, value)| value);
        let asked = match (self.random.u8(..10), seen) {
            (0..4, _) => What::Get { found: None },
            (4..7, _) => What::Put { value: self.value() },
            (_, seen) => What::Cas {
                expected: seen.flatten(),
                value: self.value(),
                swapped: false,
            },
        };
        let call = self.history.now();
        let answer = timeout(PATIENCE, ask(etcd, &key, asked.clone())).await;
        let end = self.history.now();
        let (what, outcome) = match answer {
            Ok(Ok(answered)) => (answered, Outcome::Ok),
            Ok(Err(error)) => (asked, outcome_of(&error)),
            Err(_) => (asked, Outcome::Unknown),
        };
        if outcome == Outcome::Ok {
            self.last = match &what {
                What::Get { found } => Some((key.clone(), found.clone())),
                What::Put { value }
                | What::Cas {
                    value, swapped: true, ..
                } => Some((key.clone(), Some(value.clone()))),
                What::Cas { swapped: false, .. } => None,
            };
        }
        self.history.add(Operation {
            client: self.number,
            key,
            what,
            outcome,
            call,
            end,
        });
        outcome
    }

    /// No two writes are of the same value, so that each read tells which one it has seen.
    fn value(&mut self) -> String {
        self.written += 1;
        format!("{}.{}", self.number, self.written)
    }
}

async fn ask(etcd: &mut Etcd, key: &str, what: What) -> Result<What> {
    Ok(match what {
        What::Get { .. } => What::Get {
            found: etcd.get(key).await?,
        },
        What::Put { value } => {
            etcd.put(key, &value).await?;
            What::Put { value }
        }
        What::Cas { expected, value, .. } => {
            let swapped = etcd.compare_and_swap(key, expected.as_deref(), &value).await?;
            What::Cas {
                expected,
                value,
                swapped,
            }
        }
    })
}

/// Only what etcd refuses before it proposes anything has certainly not been carried out.
fn outcome_of(error: &anyhow::Error) -> Outcome {
    use etcd::Refusal;
    let Some(etcd_client::Error::GRpcStatus(status)) = error.downcast_ref::<etcd_client::Error>() else {
        return Outcome::Unknown;
    };
    match Refusal::from_message(status.message()) {
        Some(Refusal::AskedALearner | Refusal::TooManyRequests) => Outcome::Failed,
        Some(_) | None => Outcome::Unknown,
    }
}

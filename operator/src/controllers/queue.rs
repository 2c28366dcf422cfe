//! When which cluster is looked at: at once when something happened, one pass at a time for each cluster, all
//! clusters independently of each other.

use std::{
    collections::{BTreeSet, HashMap},
    future::Future,
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};

use super::mirror::ClusterKey;

/// Events that come in one burst are answered by one pass.
const BURST: Duration = Duration::from_millis(3);

/// Wakes clusters.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    wakes: mpsc::UnboundedSender<Message>,
}

#[derive(Debug)]
enum Message {
    Wake(ClusterKey),
    Done(ClusterKey, Option<Duration>),
}

/// The other end of a [`Queue`].
#[derive(Debug)]
pub(super) struct Wakes {
    sender: mpsc::UnboundedSender<Message>,
    receiver: mpsc::UnboundedReceiver<Message>,
}

#[derive(Debug, Default)]
struct State {
    running: bool,
    woken: bool,
    due: Option<Instant>,
}

/// A queue and its other end.
#[must_use]
pub(super) fn queue() -> (Queue, Wakes) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Queue { wakes: sender.clone() }, Wakes { sender, receiver })
}

impl Queue {
    /// Something about this cluster has changed.
    pub(super) fn wake(&self, cluster: ClusterKey) {
        // The receiver is gone only while the process ends.
        let _ = self.wakes.send(Message::Wake(cluster));
    }
}

/// Says that a pass has ended, also when it ended by a panic.
struct Pass {
    sender: mpsc::UnboundedSender<Message>,
    cluster: ClusterKey,
    next: Option<Duration>,
}

impl Drop for Pass {
    fn drop(&mut self) {
        let _ = self.sender.send(Message::Done(self.cluster.clone(), self.next));
    }
}

/// After a pass that ended by a panic.
const AFTER_PANIC: Duration = Duration::from_secs(10);

/// Runs `pass` for each cluster that is woken or due, until the future is dropped. A pass says after how long its
/// cluster is looked at again at the latest; `None`: not before it is woken.
pub(super) async fn run<F, P>(mut wakes: Wakes, pass: P)
where
    P: Fn(ClusterKey) -> F,
    F: Future<Output = Option<Duration>> + Send + 'static,
{
    let mut states: HashMap<ClusterKey, State> = HashMap::new();
    let mut due: BTreeSet<(Instant, ClusterKey)> = BTreeSet::new();
    let mut tasks = tokio::task::JoinSet::new();
    loop {
        let next = due.first().map(|(at, _)| *at);
        tokio::select! {
            message = wakes.receiver.recv() => match message {
                None => return,
                Some(Message::Wake(cluster)) => {
                    let state = states.entry(cluster.clone()).or_default();
                    if state.running {
                        state.woken = true;
                    } else {
                        schedule(&mut due, state, cluster, Some(BURST));
                    }
                }
                Some(Message::Done(cluster, delay)) => {
                    let Some(state) = states.get_mut(&cluster) else { continue };
                    state.running = false;
                    let delay = if state.woken { Some(BURST) } else { delay };
                    state.woken = false;
                    if delay.is_none() {
                        states.remove(&cluster);
                    } else {
                        schedule(&mut due, state, cluster, delay);
                    }
                }
            },
            () = sleep_until(next), if next.is_some() => {
                let now = Instant::now();
                while let Some((at, _)) = due.first() {
                    if *at > now {
                        break;
                    }
                    let Some((_, cluster)) = due.pop_first() else { break };
                    let state = states.entry(cluster.clone()).or_default();
                    state.due = None;
                    state.running = true;
                    let mut guard = Pass { sender: wakes.sender.clone(), cluster: cluster.clone(), next: Some(AFTER_PANIC) };
                    let work = pass(cluster);
                    tasks.spawn(async move {
                        guard.next = work.await;
                        drop(guard);
                    });
                }
            }
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    if let Some(at) = at {
        tokio::time::sleep_until(at).await;
    }
}

/// Moves the next look to `delay` from now, unless an earlier one is due already.
fn schedule(
    due: &mut BTreeSet<(Instant, ClusterKey)>,
    state: &mut State,
    cluster: ClusterKey,
    delay: Option<Duration>,
) {
    let Some(at) = delay.map(|delay| Instant::now() + delay) else {
        return;
    };
    if let Some(held) = state.due {
        if held <= at {
            return;
        }
        due.remove(&(held, cluster.clone()));
    }
    state.due = Some(at);
    due.insert((at, cluster));
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    fn key(name: &str) -> ClusterKey {
        ClusterKey {
            namespace: "ns".into(),
            name: name.into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_during_a_pass_leads_to_exactly_one_more() {
        let (queue, wakes) = queue();
        let passes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&passes);
        let runner = tokio::spawn(run(wakes, move |_| {
            let counted = Arc::clone(&counted);
            async move {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(100)).await;
                None
            }
        }));
        queue.wake(key("a"));
        tokio::time::sleep(Duration::from_millis(50)).await;
        queue.wake(key("a"));
        queue.wake(key("a"));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(passes.load(Ordering::SeqCst), 2);
        runner.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn u13_a_stuck_cluster_does_not_delay_another() {
        let (queue, wakes) = queue();
        let (done, mut seen) = mpsc::unbounded_channel();
        let runner = tokio::spawn(run(wakes, move |cluster: ClusterKey| {
            let done = done.clone();
            async move {
                if cluster.name == "stuck" {
                    std::future::pending::<()>().await;
                }
                let _ = done.send(cluster);
                None
            }
        }));
        queue.wake(key("stuck"));
        queue.wake(key("b"));
        let first = tokio::time::timeout(Duration::from_millis(50), seen.recv()).await;
        assert_eq!(first.unwrap(), Some(key("b")));
        runner.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_comes_before_a_later_timer() {
        let (queue, wakes) = queue();
        let passes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&passes);
        let runner = tokio::spawn(run(wakes, move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Some(Duration::from_mins(5)) }
        }));
        queue.wake(key("a"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.wake(key("a"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(passes.load(Ordering::SeqCst), 2);
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_eq!(passes.load(Ordering::SeqCst), 3);
        runner.abort();
    }
}

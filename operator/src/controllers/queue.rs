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

/// Runs `pass` for each cluster that is woken or due. A pass says after how long its cluster is looked at again at the
/// latest; `None`: not before it is woken.
///
/// After `stop` no pass is started; those under way are waited for, because a call that is cut off in the middle may
/// still be carried out when another replica acts already.
pub(super) async fn run<F, P>(mut wakes: Wakes, stop: impl Future<Output = ()>, pass: P)
where
    P: Fn(ClusterKey) -> F,
    F: Future<Output = Option<Duration>> + Send + 'static,
{
    let mut stop = std::pin::pin!(stop);
    let mut states: HashMap<ClusterKey, State> = HashMap::new();
    let mut due: BTreeSet<(Instant, ClusterKey)> = BTreeSet::new();
    let mut tasks = tokio::task::JoinSet::new();
    loop {
        let next = due.first().map(|(at, _)| *at);
        tokio::select! {
            // Before anything that could start a pass; and what is due before what is new.
            biased;
            () = &mut stop => break,
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
            message = wakes.receiver.recv() => match message {
                None => break,
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
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => say_panic(ended),
        }
    }
    while let Some(ended) = tasks.join_next().await {
        say_panic(ended);
    }
}

/// The pass of one cluster has ended by a defect: the others go on, and it is tried again.
fn say_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a pass has ended by a panic; this is a defect, please report it");
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
        let runner = tokio::spawn(run(wakes, std::future::pending(), move |_| {
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
        let runner = tokio::spawn(run(wakes, std::future::pending(), move |cluster: ClusterKey| {
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
        let runner = tokio::spawn(run(wakes, std::future::pending(), move |_| {
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

    #[tokio::test(start_paused = true)]
    async fn a_pass_that_panics_ends_alone_and_is_tried_again() {
        let (queue, wakes) = queue();
        let (started, mut seen) = mpsc::unbounded_channel();
        let runner = tokio::spawn(run(wakes, std::future::pending(), move |cluster: ClusterKey| {
            let started = started.clone();
            async move {
                let _ = started.send(cluster.name.clone());
                assert_ne!(cluster.name, "broken");
                None
            }
        }));
        queue.wake(key("broken"));
        assert_eq!(seen.recv().await.as_deref(), Some("broken"));
        queue.wake(key("b"));
        assert_eq!(seen.recv().await.as_deref(), Some("b"));
        assert_eq!(seen.recv().await.as_deref(), Some("broken"));
        assert!(!runner.is_finished());
        runner.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_word_to_stop_no_pass_begins_and_those_under_way_end() {
        let (queue, wakes) = queue();
        let (started, mut seen) = mpsc::unbounded_channel();
        let ended = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ended);
        let (stop, told) = tokio::sync::oneshot::channel::<()>();
        let stopped = async move {
            let _ = told.await;
        };
        let runner = tokio::spawn(run(wakes, stopped, move |cluster: ClusterKey| {
            let _ = started.send(cluster.name);
            let counted = Arc::clone(&counted);
            async move {
                tokio::time::sleep(Duration::from_secs(3)).await;
                counted.fetch_add(1, Ordering::SeqCst);
                Some(Duration::ZERO)
            }
        }));
        queue.wake(key("a"));
        assert_eq!(seen.recv().await.as_deref(), Some("a"));
        stop.send(()).unwrap();
        queue.wake(key("b"));
        runner.await.unwrap();
        assert_eq!(ended.load(Ordering::SeqCst), 1);
        assert_eq!(seen.recv().await, None);
    }
}

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::super::directory::name;
use super::super::event::NotTaken;
use super::*;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use proto::supervisor::to_agent::Message as FromSupervisor;
use proto::supervisor::{Done, Exit, Hello, ProcessState, ToAgent, ToSupervisor, process_state};
use tokio::net::UnixStream;

use crate::cli::Paths;
use crate::serve::decide::{Decision, LastExit, Why};
use crate::serve::directory::Directory;
use crate::serve::settings::{Args, Medium};
use crate::serve::space::Space;
use crate::serve::standing::StartKind;
use crate::serve::supervisor;
use crate::socket::{self, Receiver, Sender};

const PEER_URL: &str = "http://c-a:2380";

/// The supervisor, played by a test: it writes files, and does nothing else.
struct Played {
    folder: PathBuf,
    receiver: Receiver<ToSupervisor>,
    sender: Sender<ToAgent>,
}

impl Played {
    async fn say(&mut self, message: FromSupervisor) {
        let message = Some(message);
        self.sender.send(&ToAgent { message }).await.expect("sent");
    }

    async fn next(&mut self) -> (u64, orders::Order) {
        let message = self.receiver.next().await.expect("a message").expect("open");
        (message.request, message.message.expect("an order"))
    }

    async fn answer(&mut self, request: u64, order: &orders::Order, error: &str) {
        if let (orders::Order::WriteFile(file), "") = (order, error) {
            let path = self.folder.join(&file.name);
            std::fs::write(&path, &file.content).expect("a file");
            if file.content.is_empty() {
                std::fs::remove_file(&path).expect("removed");
            }
        }
        let error = error.to_owned();
        self.say(FromSupervisor::Done(Done { request, error })).await;
    }

    /// Does whatever it is told, for ever.
    fn obey(mut self) {
        tokio::spawn(async move {
            while let Ok(Some(message)) = self.receiver.next().await {
                let order = message.message.expect("an order");
                self.answer(message.request, &order, "").await;
            }
        });
    }
}

struct Set {
    volume: tempfile::TempDir,
    actor: Actor,
    reports: watch::Receiver<Arc<wire::Report>>,
    _certificate: watch::Sender<Option<wire::Certificate>>,
}

impl Set {
    fn new() -> Self {
        let volume = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(volume.path().join("etcd-agent")).expect("a folder");
        let args = Args {
            paths: Paths {
                data_volume: volume.path().to_owned(),
                run_volume: volume.path().to_owned(),
                data_subpath: String::new(),
            },
            tls: PathBuf::new(),
            member: "c-a".to_owned(),
            namespace: "test".to_owned(),
            cluster: "c".to_owned(),
            cluster_uid: "uid".to_owned(),
            peer_url: PEER_URL.to_owned(),
            client_url: "http://c-a:2379".to_owned(),
            storage_medium: Medium::Disk,
            log: tracing::level_filters::LevelFilter::INFO,
        };
        let (certificate, certificates) = watch::channel(None);
        let wanted = watch::Sender::new(Wanted {
            pace: Pace::Idle,
            now: 0,
        });
        let state = State::new(args, IpAddr::V4(Ipv4Addr::LOCALHOST));
        let (actor, reports) = Actor::new(state, mpsc::channel(64), wanted, certificates);
        Self {
            volume,
            actor,
            reports,
            _certificate: certificate,
        }
    }

    fn ours(&self, name: &str) -> PathBuf {
        self.volume.path().join("etcd-agent").join(name)
    }

    /// A supervisor connects; the actor hears of it as its next event.
    async fn supervisor(&self, process: ProcessState) -> Played {
        let path = self.volume.path().join("agent.sock");
        let listener = supervisor::bind(&path).expect("a socket");
        tokio::spawn(supervisor::accept(listener, self.actor.events.clone()));
        let stream = UnixStream::connect(&path).await.expect("connected");
        let (receiver, sender) = socket::split(stream);
        let folder = self.ours("");
        let mut played = Played {
            folder,
            receiver,
            sender,
        };
        let hello = Hello {
            etcd_version: "3.6.16".to_owned(),
            process: Some(process),
            ..Hello::default()
        };
        played.say(FromSupervisor::Hello(hello)).await;
        played
    }

    async fn handle_next(&mut self) {
        let event = self.actor.incoming.recv().await.expect("an event");
        self.actor.handle(event).await;
    }

    /// Linked to a supervisor that obeys, with an unborn directory of this nonce.
    async fn linked() -> Self {
        let mut set = Self::new();
        set.supervisor(waiting(None)).await.obey();
        set.handle_next().await;
        std::fs::write(set.ours(name::NONCE), NONCE).expect("a file");
        set.actor.look();
        set.handle_next().await;
        set
    }
}

const NONCE: &str = "0123456789abcdef0123456789abcdef";

fn waiting(exit: Option<(&str, i64)>) -> ProcessState {
    ProcessState {
        phase: process_state::Phase::Waiting.into(),
        exit: exit.map(|(class, seconds)| Exit {
            code: 1,
            class: class.to_owned(),
            at: Some(prost_types::Timestamp { seconds, nanos: 5 }),
            ..Exit::default()
        }),
        ..ProcessState::default()
    }
}

fn directive(number: u64, nonce: &str, order: wire::directive::Order) -> wire::Directive {
    wire::Directive {
        number,
        cluster_uid: "uid".to_owned(),
        incarnation: 1,
        nonce: nonce.to_owned(),
        order: Some(order),
    }
}

fn hold(number: u64) -> wire::Directive {
    let reason = "maintenance".to_owned();
    directive(number, "", wire::directive::Order::Hold(wire::Hold { reason }))
}

fn join(number: u64, peers: u64) -> wire::Directive {
    let peer = |id| wire::Peer {
        id,
        name: String::new(),
        peer_urls: vec![if id == 1 {
            PEER_URL.to_owned()
        } else {
            format!("http://p-{id}:2380")
        }],
    };
    let join = wire::Join {
        token: "t".to_owned(),
        member_id: 1,
        cluster_id: 9,
        members: (1..=peers).map(peer).collect(),
        ..wire::Join::default()
    };
    directive(number, NONCE, wire::directive::Order::Join(join))
}

#[tokio::test]
async fn d11_an_etcd_that_ended_for_want_of_space_waits_for_space_and_then_starts_at_once() {
    let mut set = Set::linked().await;
    let (answer, _) = oneshot::channel();
    set.actor.handle(Event::Direct(Box::new(join(1, 1)), answer)).await;
    let decides = |set: &Set| set.actor.state.decision();
    assert_eq!(decides(&set), Decision::Once(StartKind::Join));
    for seconds in 1..4 {
        set.actor.hear(waiting(Some(("DiskFull", seconds))));
    }
    let space = |free_bytes| Space {
        total_bytes: 1 << 30,
        free_bytes,
        ..Space::default()
    };
    let look = |set: &mut Set, free| {
        let directory = Directory {
            space: space(free),
            ..set.actor.state.directory.clone()
        };
        set.actor.inspected(Inspected {
            directory,
            standing: None,
        });
    };
    look(&mut set, 3 << 20);
    assert_eq!(decides(&set), Decision::Wait(Why::NoRoom(space(3 << 20))));
    let said = set.actor.report().waiting_for;
    assert!(
        said.contains("3 of 1024 MiB are free") && said.contains("grow"),
        "{said}"
    );
    assert!(set.actor.state.not_before.is_some(), "a back-off");
    look(&mut set, 512 << 20);
    assert_eq!(decides(&set), Decision::Once(StartKind::Join));
    assert_eq!(set.actor.state.not_before, None);
    // A volume whose size is not known keeps nobody down, nor does one whose owner has said to try again.
    set.actor.hear(waiting(Some(("DiskFull", 9))));
    set.actor.state.directory.space = Space::default();
    assert_eq!(decides(&set), Decision::Once(StartKind::Join));
    look(&mut set, 3 << 20);
    let standing = set.actor.state.standing.clone().expect("one stands");
    set.actor.state.standing = Some(set.actor.state.forgiving(standing));
    assert_eq!(decides(&set), Decision::Once(StartKind::Join));
}

#[tokio::test]
async fn a_directive_is_not_taken_while_orders_that_would_undo_it_are_under_way() {
    let set = Set::new();
    let mut played = set.supervisor(waiting(None)).await;
    let (events, directives, nonce) = (
        set.actor.events.clone(),
        set.ours(name::STANDING),
        set.ours(name::NONCE),
    );
    let running = tokio::spawn(set.actor.run());
    let direct = async |directive| {
        let (answer, answered) = oneshot::channel();
        let event = Event::Direct(Box::new(directive), answer);
        events.send(event).await.expect("sent");
        answered.await.expect("an answer")
    };
    // An empty volume: the agent has its nonce written.
    let mut done = false;
    while !done {
        let (request, order) = played.next().await;
        let refusal = direct(hold(1)).await.expect_err("not taken");
        assert!(
            matches!(&refusal, NotTaken::NotNow { detail, .. } if detail.contains("prepared")),
            "{refusal}"
        );
        done = matches!(&order, orders::Order::WriteFile(file) if file.name == name::NONCE);
        played.answer(request, &order, "").await;
    }
    assert!(nonce.exists());
    played.obey();
    // The answer may not have been heard yet.
    while direct(hold(1)).await.is_err() {
        tokio::task::yield_now().await;
    }
    let standing: Standing = serde_json::from_slice(&std::fs::read(directives).expect("a file")).expect("JSON");
    assert_eq!((standing.number, standing.hold.as_deref()), (1, Some("maintenance")));
    running.abort();
}

#[tokio::test]
async fn the_same_first_start_sent_again_keeps_its_back_off_and_another_one_has_none() {
    let mut set = Set::linked().await;
    let actor = &mut set.actor;
    assert_eq!(actor.direct(join(1, 2)).await.expect("taken"), 1);
    for end in 0..4 {
        actor.hear(waiting(Some(("NoPeers", end))));
    }
    let due = actor.state.not_before.expect("a back-off");
    for number in 2..5 {
        assert_eq!(actor.direct(join(number, 2)).await.expect("taken"), number);
        assert_eq!(actor.state.not_before, Some(due));
    }
    assert_eq!(actor.state.start().expect("a start").number, 4);
    actor.direct(join(5, 3)).await.expect("taken");
    assert_eq!(actor.state.not_before, None);
}

#[tokio::test]
async fn a_forgiven_end_stays_forgiven_when_the_agent_is_killed() {
    let mut set = Set::linked().await;
    set.actor.hear(waiting(None));
    set.actor.hear(waiting(Some(("Removed", 7))));
    assert_eq!(set.actor.state.last_exit(), LastExit::Removed);
    let resume = directive(1, "", wire::directive::Order::Resume(wire::Resume::default()));
    set.actor.direct(resume).await.expect("taken");
    assert_eq!(set.actor.state.last_exit(), LastExit::MayRestart);

    let mut next = State::new(set.actor.state.args.clone(), set.actor.state.listen);
    next.standing = Some(directory::read_standing(&next.args.paths).expect("what stands"));
    next.hear(waiting(Some(("Removed", 7))), Instant::now());
    assert_eq!(next.last_exit(), LastExit::MayRestart);
    next.hear(waiting(Some(("Removed", 8))), Instant::now());
    assert_eq!(next.last_exit(), LastExit::Removed, "a later end is news");
}

#[tokio::test]
async fn what_could_not_be_written_is_written_later() {
    let mut set = Set::new();
    let mut played = set.supervisor(waiting(None)).await;
    set.handle_next().await;
    set.actor.state.standing = Some(Standing {
        hold: Some("maintenance".to_owned()),
        ..Standing::default()
    });
    set.actor.state.unsaved = true;
    let file = set.ours(name::STANDING);
    let full = async {
        let (request, order) = played.next().await;
        played.answer(request, &order, "no space left").await;
    };
    tokio::join!(set.actor.save_what_is_not(), full);
    assert!(set.actor.state.unsaved && !file.exists());
    let now = Instant::now();
    assert!(set.actor.wake(now) <= now + RETRY);
    // Not before its time.
    set.actor.save_what_is_not().await;
    played.obey();
    set.actor.save_again = Instant::now();
    set.actor.save_what_is_not().await;
    assert!(!set.actor.state.unsaved);
    let standing = directory::read_standing(&set.actor.state.args.paths).expect("what stands");
    assert_eq!(standing.hold.as_deref(), Some("maintenance"));
}

#[tokio::test]
async fn an_end_of_etcd_is_told_at_once_while_the_disk_hangs() {
    let set = Set::new();
    // Whoever opens it waits for a writer that never comes.
    let fifo = set.ours(name::IDENTITY);
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).expect("a FIFO");
    let mut played = set.supervisor(waiting(None)).await;
    let mut reports = set.reports.clone();
    let running = tokio::spawn(set.actor.run());
    played.say(FromSupervisor::Process(waiting(Some(("Panic", 1))))).await;
    let told = reports.wait_for(|report| {
        let exit = report.process.as_ref().and_then(|process| process.exit.as_ref());
        exit.is_some_and(|exit| exit.class == "Panic")
    });
    let told = tokio::time::timeout(SIZES / 3, told)
        .await
        .expect("told in time")
        .is_ok();
    // Lets the look end, and with it this test.
    drop(std::fs::File::options().write(true).open(&fifo));
    assert!(told);
    running.abort();
}

#[tokio::test]
async fn an_order_that_fails_again_and_again_is_given_less_often_until_something_changes() {
    let mut set = Set::linked().await;
    let mut pauses = Vec::new();
    for _ in 0..6 {
        let now = Instant::now();
        set.actor.acted(Err(Error::Lost { what: "stop etcd" }));
        let pause = set.actor.state.not_before.expect("a pause").duration_since(now);
        pauses.push(pause.as_secs_f64().round());
    }
    assert_eq!(format!("{pauses:?}"), "[2.0, 4.0, 8.0, 16.0, 30.0, 30.0]");
    set.actor.direct(hold(1)).await.expect("taken");
    assert_eq!((set.actor.state.not_before, set.actor.faults), (None, 0));
    set.actor.acted(Err(Error::Lost { what: "stop etcd" }));
    let again = set.actor.state.not_before;
    set.actor.direct(hold(2)).await.expect("taken");
    assert_eq!(set.actor.state.not_before, again, "the same again is no news");
}

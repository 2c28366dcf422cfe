//! A supervisor, what it needs around it, and an agent that a test plays.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agent::socket::{self, Receiver, Sender};
use proto::supervisor::process_state::Phase;
use proto::supervisor::to_supervisor::Message;
use proto::supervisor::{
    Hello, Logs, ProcessState, SetRepeatable, Start, Stop, ToAgent, ToSupervisor, start, to_agent,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::time::{sleep, timeout};

/// Anything that takes longer has gone wrong; the machine may be slow and busy.
const LIMIT: Duration = Duration::from_mins(1);

/// The etcd of this minor, built for the local Kubernetes.
pub(crate) fn etcd(minor: &str) -> PathBuf {
    program(minor, "etcd")
}

fn program(minor: &str, name: &str) -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").expect("HOME is not set")).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map_or_else(home, PathBuf::from)
        .join("etcd-operator");
    let mut found: Vec<PathBuf> = fs::read_dir(&cache)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with(&format!("etcd-{minor}."))
        })
        .map(|path| path.join(name))
        .filter(|path| path.is_file())
        .collect();
    let patch = |path: &PathBuf| {
        let name = path
            .parent()
            .unwrap()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        name[format!("etcd-{minor}.").len()..]
            .split('-')
            .next()
            .unwrap()
            .parse::<u32>()
            .unwrap()
    };
    found.sort_by_key(patch);
    found.pop().unwrap_or_else(|| {
        panic!(
            "no {name} {minor} in {}; build it with: cargo run -p tests --bin local-kube -- build",
            cache.display()
        )
    })
}

/// What a Pod gives a supervisor.
pub(crate) struct Pod {
    volume: TempDir,
    listener: UnixListener,
    pub(crate) client_port: u16,
    peer_port: u16,
    metrics_port: u16,
    supervisor: Option<Supervisor>,
    etcd: PathBuf,
    patience: u16,
}

struct Supervisor {
    process: Child,
    output: Arc<Mutex<Vec<String>>>,
}

impl Pod {
    /// With this etcd; nothing runs yet.
    pub(crate) fn new(etcd: &Path) -> Self {
        let volume = tempfile::tempdir().unwrap();
        fs::create_dir(volume.path().join("data")).unwrap();
        fs::create_dir(volume.path().join("run")).unwrap();
        let listener = UnixListener::bind(volume.path().join("run/agent.sock")).unwrap();
        // Held together, so that they differ; given back so that etcd can take them.
        let held: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |index: usize| held[index].local_addr().unwrap().port();
        Self {
            volume,
            listener,
            client_port: port(0),
            peer_port: port(1),
            metrics_port: port(2),
            supervisor: None,
            etcd: etcd.to_owned(),
            patience: 30,
        }
    }

    /// With a script in etcd's place. It has `$data` and, like etcd, is asked for its version.
    pub(crate) fn with_script(script: &str) -> Self {
        let mut pod = Self::new(Path::new("/"));
        let file = pod.path("script");
        let text = format!(
            "#!/bin/sh\ndata='{}'\nif [ \"$1\" = --version ]; then echo 'etcd Version: 3.0.0'; exit; fi\n{script}\n",
            pod.data().display()
        );
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        pod.etcd = file;
        pod
    }

    /// With so many seconds of patience.
    pub(crate) fn patience(mut self, seconds: u16) -> Self {
        self.patience = seconds;
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.volume.path().join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// A file of the agent's folder.
    pub(crate) fn ours(&self, name: &str) -> PathBuf {
        self.data().join("etcd-agent").join(name)
    }

    /// The command line of a supervisor of this Pod.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        vec![
            "supervise".to_owned(),
            "--data-volume".to_owned(),
            text(&self.data()),
            "--run-volume".to_owned(),
            text(&self.path("run")),
            "--etcd".to_owned(),
            text(&self.etcd),
            "--watchdog-patience".to_owned(),
            self.patience.to_string(),
        ]
    }

    /// Starts the supervisor.
    pub(crate) fn supervise(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_etcd-agent"));
        command.args(self.arguments());
        self.supervise_by(command);
    }

    /// Starts the supervisor in another way.
    pub(crate) fn supervise_by(&mut self, mut command: Command) {
        assert!(self.supervisor.is_none());
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = Arc::new(Mutex::new(Vec::new()));
        collect(process.stdout.take().unwrap(), &output);
        collect(process.stderr.take().unwrap(), &output);
        self.supervisor = Some(Supervisor { process, output });
    }

    pub(crate) fn supervisor_pid(&self) -> i32 {
        self.supervisor.as_ref().unwrap().process.id().cast_signed()
    }

    /// What the container has written.
    pub(crate) fn output(&self) -> Vec<String> {
        self.supervisor.as_ref().unwrap().output.lock().unwrap().clone()
    }

    /// Waits until the container has written a line with this text.
    pub(crate) async fn wrote(&self, text: &str) {
        until(&format!("the container's log has {text:?}"), || {
            self.output().iter().any(|line| line.contains(text))
        })
        .await;
    }

    /// Kills the supervisor and all it has started, as the end of a container does.
    pub(crate) fn kill_container(&mut self) {
        if let Some(mut supervisor) = self.supervisor.take() {
            let pid = supervisor.process.id().cast_signed();
            let children = children(pid);
            kill(pid, Signal::KILL);
            let _ = supervisor.process.wait();
            for child in children {
                kill(child, Signal::KILL);
            }
            if std::thread::panicking() {
                let output = supervisor.output.lock().unwrap();
                eprintln!("{}", output[output.len().saturating_sub(30)..].join("\n"));
            }
        }
    }

    /// Asks the supervisor to end, as kubelet does, and waits for that.
    pub(crate) async fn terminate(&mut self) -> ExitStatus {
        kill(self.supervisor_pid(), Signal::TERM);
        self.ended().await
    }

    /// Waits for the supervisor's end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.supervisor.as_mut().unwrap().process.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < LIMIT, "the supervisor does not end");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The agent's end of the next connection.
    pub(crate) async fn agent(&self) -> Agent {
        let (stream, _) = timeout(LIMIT, self.listener.accept())
            .await
            .expect("the supervisor does not connect")
            .unwrap();
        let (receiver, sender) = socket::split(stream);
        let mut agent = Agent {
            receiver,
            sender,
            requests: 0,
            lines: Vec::new(),
            hello: Hello::default(),
            state: ProcessState::default(),
        };
        match agent.next().await {
            Some(to_agent::Message::Hello(hello)) => {
                agent.state = hello.process.clone().unwrap();
                agent.hello = hello;
            }
            other => panic!("not a Hello first: {other:?}"),
        }
        agent
    }

    /// A configuration that may be used again and again.
    pub(crate) fn repeatable(&self) -> String {
        format!(
            "name: a\ndata-dir: {}\nlisten-client-urls: http://127.0.0.1:{client}\n\
             advertise-client-urls: http://127.0.0.1:{client}\nlisten-peer-urls: http://127.0.0.1:{peer}\n\
             initial-advertise-peer-urls: http://127.0.0.1:{peer}\nlisten-metrics-urls: http://127.0.0.1:{metrics}\n\
             log-outputs: [stderr]\n",
            self.data().display(),
            client = self.client_port,
            peer = self.peer_port,
            metrics = self.metrics_port,
        )
    }

    /// The configuration of a first member.
    pub(crate) fn seed(&self) -> String {
        let peer = self.peer_port;
        format!(
            "{}initial-cluster: a=http://127.0.0.1:{peer}\ninitial-cluster-state: new\n",
            self.repeatable()
        )
    }

    /// The configuration of a member that joins one that is not there.
    pub(crate) fn lonely_join(&self) -> String {
        let peer = self.peer_port;
        format!(
            "{}initial-cluster: a=http://127.0.0.1:{peer},b=http://127.0.0.1:1\ninitial-cluster-state: existing\n",
            self.repeatable()
        )
    }

    /// A client of the running etcd, once that takes writes.
    pub(crate) async fn client(&self) -> etcd_client::Client {
        let begun = Instant::now();
        loop {
            let endpoint = format!("http://127.0.0.1:{}", self.client_port);
            if let Ok(mut client) = etcd_client::Client::connect([endpoint], None).await
                && let Ok(Ok(_)) = timeout(Duration::from_secs(1), client.put("ready", "", None)).await
            {
                return client;
            }
            assert!(begun.elapsed() < LIMIT, "etcd takes no writes");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// A first member that serves and may be started again.
    pub(crate) async fn seeded(&mut self) -> Agent {
        self.supervise();
        let mut agent = self.agent().await;
        agent.start_once(1, &self.seed()).await.unwrap();
        agent.until("etcd serves", |state| state.served).await;
        agent
            .ask(Message::SetRepeatable(SetRepeatable {
                config: self.repeatable().into_bytes(),
            }))
            .await
            .unwrap();
        agent
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.kill_container();
    }
}

fn collect(stream: impl std::io::Read + Send + 'static, output: &Arc<Mutex<Vec<String>>>) {
    let output = Arc::clone(output);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            output.lock().unwrap().push(line);
        }
    });
}

/// The agent, played by a test.
pub(crate) struct Agent {
    receiver: Receiver<ToAgent>,
    sender: Sender<ToSupervisor>,
    requests: u64,
    lines: Vec<String>,
    pub(crate) hello: Hello,
    /// As it was last told.
    pub(crate) state: ProcessState,
}

impl Agent {
    /// The next message that is no state; `None` at the end of the connection.
    async fn next(&mut self) -> Option<to_agent::Message> {
        timeout(LIMIT, self.receiver.next())
            .await
            .expect("the supervisor says nothing")
            .unwrap()?
            .message
    }

    /// The last lines etcd wrote.
    pub(crate) async fn logs(&mut self) -> Vec<String> {
        self.ask(Message::Logs(Logs { lines: 200 })).await.unwrap();
        std::mem::take(&mut self.lines)
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn ask(&mut self, message: Message) -> Result<(), String> {
        self.requests += 1;
        self.sender
            .send(&ToSupervisor {
                request: self.requests,
                message: Some(message),
            })
            .await
            .unwrap();
        loop {
            match self.next().await.expect("the supervisor has closed") {
                to_agent::Message::Process(state) => self.state = state,
                to_agent::Message::Done(done) => {
                    assert_eq!(done.request, self.requests);
                    return if done.error.is_empty() { Ok(()) } else { Err(done.error) };
                }
                to_agent::Message::Logs(logs) => self.lines = logs.lines,
                other @ to_agent::Message::Hello(_) => panic!("unexpected {other:?}"),
            }
        }
    }

    pub(crate) async fn start(
        &mut self,
        kind: start::Kind,
        order: u64,
        config: &str,
        identity: &str,
    ) -> Result<(), String> {
        let (config, identity) = (config.as_bytes().to_vec(), identity.as_bytes().to_vec());
        self.ask(Message::Start(Start {
            kind: kind.into(),
            order,
            config,
            identity,
        }))
        .await
    }

    pub(crate) async fn start_once(&mut self, order: u64, config: &str) -> Result<(), String> {
        self.start(start::Kind::Once, order, config, r#"{"member":"a"}"#).await
    }

    pub(crate) async fn start_repeatable(&mut self, config: &str) -> Result<(), String> {
        self.start(start::Kind::Repeatable, 0, config, "").await
    }

    pub(crate) async fn stop(&mut self, reason: &str) -> Result<(), String> {
        self.ask(Message::Stop(Stop {
            grace_seconds: 30,
            reason: reason.to_owned(),
        }))
        .await
    }

    pub(crate) async fn write_file(&mut self, name: &str, content: &str) -> Result<(), String> {
        let content = content.as_bytes().to_vec();
        self.ask(Message::WriteFile(proto::supervisor::WriteFile {
            name: name.to_owned(),
            content,
        }))
        .await
    }

    /// Waits until the supervisor tells a state of this kind, which may be the last one it told.
    pub(crate) async fn until(&mut self, what: &str, holds: impl Fn(&ProcessState) -> bool) -> &ProcessState {
        let waiting = async {
            while !holds(&self.state) {
                match self.next().await.expect("the supervisor has closed") {
                    to_agent::Message::Process(state) => self.state = state,
                    other => panic!("unexpected {other:?}"),
                }
            }
        };
        let came = timeout(LIMIT, waiting).await.is_ok();
        assert!(came, "waited in vain until {what}; last: {:?}", self.state);
        &self.state
    }

    /// Waits until etcd has ended and is not running again; the class of that end.
    pub(crate) async fn until_ended(&mut self) -> String {
        let state = self
            .until("etcd has ended", |state| {
                state.exit.is_some() && [Phase::Waiting, Phase::BackingOff].contains(&state.phase())
            })
            .await;
        state.exit.as_ref().unwrap().class.clone()
    }

    /// Waits until the supervisor has closed the connection.
    pub(crate) async fn until_closed(&mut self) {
        while let Some(message) = self.next().await {
            if let to_agent::Message::Process(state) = message {
                self.state = state;
            }
        }
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LIMIT, "waited in vain until {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    // One that has ended already needs none.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

pub(crate) fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

/// Is this a process that has not ended?
pub(crate) fn runs(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

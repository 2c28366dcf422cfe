//! A cluster of three without a quorum, and what is planned for it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::super::{
    divergence::Hashes,
    facts::{
        Binding, Budget, Claim, Cluster, ClusterRecord, Fact, Facts, Id, Link, Listed, Medium, Member, MemberList,
        MemberRecord, Options, Pod, PodFact, Recovery, RecoverySource, Seed, ServiceState, Services, Spec, Version,
    },
    place::{Node, Place, Volume},
    plan,
    report::{
        Directory, DirectoryState, Disk, Etcd, Identity, Log, Position, Process, ProcessState, RecoveryPhase, Report,
    },
    rollout::Rollout,
    step::{Order, Plan, Step},
    view::View,
    volumes,
};
use super::{
    candidates,
    stage::{self, Stage},
};

const NAMES: [&str; 3] = ["c-a", "c-b", "c-c"];

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn long_ago() -> Timestamp {
    now() - SignedDuration::from_secs(600)
}

fn id(name: &str) -> Id {
    Id(name.bytes().fold(7, |id, byte| id * 31 + u64::from(byte)))
}

fn log(term: u64, index: u64, commit: u64) -> Log {
    Log {
        last: Position { term, index },
        commit,
        revision: 5,
        learner: false,
    }
}

/// A held member whose agent has read its log.
fn report(name: &str, state: DirectoryState, log: Option<Log>) -> Report {
    let has_data = !matches!(state, DirectoryState::Unborn);
    Report {
        agent_version: "0.1.0".into(),
        directive: 1,
        directory: Directory {
            state,
            detail: String::new(),
            nonce: format!("nonce-{name}"),
            started: has_data,
            identity: has_data.then(|| Identity {
                cluster_uid: "uid".into(),
                incarnation: 1,
                cluster_id: Id(9),
                member_id: id(name),
                nonce: format!("nonce-{name}"),
            }),
            bytes: 0,
            fenced: false,
            fence_ordered: false,
            quarantined: Vec::new(),
            log,
        },
        process: Process {
            state: if state == DirectoryState::InUse {
                ProcessState::Running
            } else {
                ProcessState::Held
            },
            started_at: 0,
            etcd_version: "3.6.16".into(),
            restarts: 0,
            oom_kills: 0,
            exit: None,
        },
        etcd: (state == DirectoryState::InUse).then(|| Etcd {
            member_id: id(name),
            cluster_id: Id(9),
            leader: None,
            commit: 5,
            applied: 5,
            learner: false,
            version: "3.6.16".into(),
            alarms: Vec::new(),
            serving: false,
            receiving_snapshot: false,
            db_size: 0,
        }),
        waiting_for: String::new(),
        recovery: None,
        disk: Disk::default(),
    }
}

fn member(name: &str, link: Link) -> Member {
    Member {
        name: name.into(),
        uid: format!("uid-{name}"),
        created: long_ago(),
        deleting: false,
        deleted_just_now: false,
        finalizer: true,
        dormant: false,
        bootstrap: false,
        version: Version::parse("3.6.16"),
        peer_url: format!("http://{name}.c.ns.svc:2380"),
        identity_ready: true,
        claim: Claim::Ours,
        volume: volumes::Volume::default(),
        pod: PodFact::Ours(Pod {
            uid: format!("pod-{name}"),
            created: long_ago(),
            deleting: false,
            ended: false,
            ready: false,
            ip: Some("10.0.0.1".into()),
            node: Some("n1".into()),
            voter_label: true,
            cluster_label: true,
            has_agent: true,
            agent_image: None,
            agent_fails: false,
            etcd_version: Version::parse("3.6.16"),
            trouble: None,
        }),
        place: Place::default(),
        link,
        resolvable: true,
        record: MemberRecord {
            binding: Some(Binding {
                id: id(name),
                nonce: format!("nonce-{name}"),
            }),
            directive: 1,
            member_id: Some(id(name)),
            heard: true,
            voter: true,
            pod_uid: Some(format!("pod-{name}")),
        },
        sent: None,
    }
}

fn up(report: Report) -> Link {
    Link::Up {
        report: Box::new(report),
        at: now(),
    }
}

fn down() -> Link {
    Link::Down {
        since: long_ago(),
        why: "Timeout".into(),
        last: None,
    }
}

fn facts(links: [Link; 3]) -> Facts {
    let members = NAMES
        .into_iter()
        .zip(links)
        .map(|(name, link)| member(name, link))
        .collect();
    Facts {
        now: now(),
        cluster: Cluster {
            name: "c".into(),
            namespace: "ns".into(),
            uid: "uid".into(),
            generation: 1,
            peer_suffix: ".c.ns.svc:2380".into(),
            ending: false,
            hands_off: false,
            spec: Spec {
                replicas: 3,
                version: Version::parse("3.6.16").unwrap(),
                medium: Medium::Disk,
                volume: volumes::Size::default(),
                options: Options::default(),
                progress_deadline: Duration::from_mins(10),
                node_loss: Duration::from_mins(5),
                rollout_paused: false,
                recovers_after: None,
                is_observed: true,
                invalid: Vec::new(),
                unsupported: Vec::new(),
                blocks_formation: Vec::new(),
            },
            record: ClusterRecord {
                token: Some("ns-c-uid".into()),
                incarnation: 1,
                cluster_id: Some(Id(9)),
                seed: Some(Seed {
                    member: "c-a".into(),
                    nonce: "nonce-c-a".into(),
                }),
                replicas: Some(3),
                version: Version::parse("3.6.16"),
                deadline: None,
            },
        },
        members,
        list: Fact::Unknown {
            why: "no voter knows a leader".into(),
        },
        services: Services {
            headless: ServiceState::Current,
            client: ServiceState::Current,
        },
        budget: Budget::Ours {
            min_available: Some(2),
            current: true,
        },
        nudged: None,
        unproven_since: Some(long_ago()),
        refusal: None,
        unanswered: None,
        leader: None,
        missing_verbs: Vec::new(),
        failed: Vec::new(),
        retained: Vec::new(),
        rollout: Rollout::default(),
        hashes: Hashes::default(),
        growth_refused: None,
        recoveries: Vec::new(),
        seen: None,
    }
}

fn recovery(source: RecoverySource) -> Recovery {
    Recovery {
        name: "night".into(),
        uid: "uid-night".into(),
        source,
        assume_gone: Vec::new(),
        accept_data_loss: false,
        ended: false,
        member: None,
        incarnation: None,
    }
}

fn asked(links: [Link; 3], source: RecoverySource) -> Facts {
    Facts {
        recoveries: vec![recovery(source)],
        ..facts(links)
    }
}

fn unborn(name: &str) -> Report {
    report(name, DirectoryState::Unborn, None)
}

fn fenced(mut report: Report) -> Report {
    report.directory.fenced = true;
    report.directory.fence_ordered = true;
    report
}

fn stage_of(facts: &Facts) -> Stage {
    stage::of(&View::new(facts)).unwrap().1
}

fn orders(plan: &Plan) -> Vec<(&str, &'static str)> {
    plan.steps()
        .filter_map(|step| match step {
            Step::Direct { member, order, .. } => Some((member.as_str(), order.kind())),
            _ => None,
        })
        .collect()
}

#[test]
fn d13_all_that_are_heard_are_fenced_before_the_new_history_is_recorded_and_then_ordered() {
    let held = |name| report(name, DirectoryState::Intact, Some(log(3, 100, 90)));
    let running = report("c-c", DirectoryState::InUse, Some(log(3, 100, 90)));
    let before = asked(
        [up(unborn("c-a")), up(unborn("c-b")), up(running)],
        RecoverySource::Member("c-c".into()),
    );
    let fencing = plan(&before);
    assert_eq!(orders(&fencing), [("c-a", "Fence"), ("c-b", "Fence"), ("c-c", "Fence")]);
    assert!(matches!(stage_of(&before), Stage::Fencing(_)));

    let proven = asked(
        [
            up(fenced(unborn("c-a"))),
            up(fenced(unborn("c-b"))),
            up(fenced(held("c-c"))),
        ],
        RecoverySource::Best,
    );
    assert_eq!(stage_of(&proven), Stage::Ready("c-c".into()));
    let opening = plan(&proven);
    let kinds: Vec<_> = opening
        .chains
        .iter()
        .find(|chain| chain.len() > 2)
        .unwrap()
        .iter()
        .map(Step::kind)
        .collect();
    assert_eq!(kinds, ["RecordRecovery", "OpenHistory", "Bind", "Direct"]);
    let recover = opening.steps().find_map(|step| match step {
        Step::Direct {
            order:
                Order::Recover {
                    incarnation,
                    token,
                    new_nonce,
                    ..
                },
            nonce,
            ..
        } => Some((*incarnation, token.clone(), nonce.clone(), new_nonce.len())),
        _ => None,
    });
    assert_eq!(recover, Some((2, "ns-c-uid-2".into(), "nonce-c-c".into(), 32)));
}

#[test]
fn d14_the_longest_log_is_chosen_and_not_the_one_that_knows_most_to_be_committed() {
    let with = |name, log| up(fenced(report(name, DirectoryState::Intact, Some(log))));
    let facts = asked(
        [
            with("c-a", log(2, 1000, 900)),
            with("c-b", log(2, 950, 950)),
            with("c-c", log(1, 2000, 800)),
        ],
        RecoverySource::Best,
    );
    assert_eq!(stage_of(&facts), Stage::Ready("c-a".into()));

    let named = |accept_data_loss| {
        let mut facts = facts.clone();
        facts.recoveries = vec![Recovery {
            accept_data_loss,
            ..recovery(RecoverySource::Member("c-b".into()))
        }];
        stage_of(&facts)
    };
    assert!(matches!(named(false), Stage::Refused(why) if why.contains("c-a") && why.contains("acceptDataLoss")));
    assert_eq!(named(true), Stage::Ready("c-b".into()));
}

#[test]
fn d15_a_learner_is_refused_by_its_own_disk_and_by_what_was_recorded() {
    let learner = report(
        "c-c",
        DirectoryState::Intact,
        Some(Log {
            learner: true,
            ..log(3, 100, 100)
        }),
    );
    let source = || RecoverySource::Member("c-c".into());
    let links = |last| [up(fenced(unborn("c-a"))), up(fenced(unborn("c-b"))), up(fenced(last))];
    let by_disk = asked(links(learner), source());
    assert!(matches!(stage_of(&by_disk), Stage::Refused(why) if why.contains("learner")));
    let mut by_record = asked(
        links(report("c-c", DirectoryState::Intact, Some(log(3, 100, 100)))),
        source(),
    );
    by_record.members[2].record.voter = false;
    assert!(matches!(stage_of(&by_record), Stage::Refused(why) if why.contains("learner")));
    by_record.recoveries[0].source = RecoverySource::Best;
    assert!(matches!(stage_of(&by_record), Stage::Refused(why) if why.contains("no member has data")));
}

#[test]
fn while_the_quorum_stands_nothing_is_fenced() {
    let well = |name| {
        let mut report = report(name, DirectoryState::InUse, None);
        if let Some(etcd) = &mut report.etcd {
            etcd.leader = Some(id("c-a"));
            etcd.serving = true;
        }
        up(report)
    };
    let mut facts = asked([well("c-a"), well("c-b"), well("c-c")], RecoverySource::Best);
    facts.unproven_since = None;
    assert!(matches!(stage_of(&facts), Stage::Refused(why) if why.contains("quorum stands")));
    assert!(orders(&plan(&facts)).is_empty());
}

#[test]
fn d30_the_policy_acts_when_the_others_are_gone_and_waits_for_a_person_when_they_are_only_unreachable() {
    let held = || up(report("c-c", DirectoryState::Intact, Some(log(3, 100, 90))));
    let automatic = |links| {
        let mut facts = facts(links);
        facts.cluster.spec.recovers_after = Some(Duration::from_mins(5));
        facts
    };
    let creates = |facts: &Facts| {
        plan(facts)
            .steps()
            .any(|step| matches!(step, Step::CreateRecovery { .. }))
    };
    let gone = automatic([up(unborn("c-a")), up(unborn("c-b")), held()]);
    assert!(creates(&gone));
    let mut early = gone.clone();
    early.unproven_since = Some(now() - SignedDuration::from_secs(299));
    assert!(!creates(&early));
    assert!(plan(&early).again.is_some());

    let away = automatic([down(), down(), held()]);
    assert!(!creates(&away));
    let says = super::report::pending(&View::new(&away)).1;
    assert!(
        says.contains("c-a is not heard") && says.contains("c-b is not heard"),
        "{says}"
    );
    // A quorum of them still has its data: it may come back by itself.
    let whole = automatic([
        up(report("c-a", DirectoryState::Intact, Some(log(3, 100, 90)))),
        down(),
        held(),
    ]);
    assert!(!creates(&whole));
    // Nobody has to reach what ran on nodes that are gone.
    let mut dead = automatic([down(), down(), held()]);
    for member in &mut dead.members[..2] {
        member.place.node = Node::Gone { since: long_ago() };
    }
    assert!(creates(&dead));
    // A volume that Kubernetes has given up is mounted on, where its node is only not heard.
    for (node, acts) in [(Node::Lost { since: long_ago() }, false), (Node::Ready, true)] {
        for member in &mut dead.members[..2] {
            member.place.node = node;
            member.place.volume = Volume::Gone { since: long_ago() };
        }
        assert_eq!(creates(&dead), acts, "{node:?}");
    }
    let manual = facts([up(unborn("c-a")), up(unborn("c-b")), held()]);
    assert!(!creates(&manual));
}

#[test]
fn an_unreachable_member_is_waited_for_unless_a_person_takes_it_for_gone_and_then_no_service_leads_to_it() {
    let held = up(fenced(report("c-c", DirectoryState::Intact, Some(log(3, 100, 90)))));
    let mut facts = asked(
        [up(fenced(unborn("c-a"))), down(), held],
        RecoverySource::Member("c-c".into()),
    );
    assert!(matches!(stage_of(&facts), Stage::Fencing(why) if why.contains("c-b") && why.contains("assumeGone")));
    facts.recoveries[0].assume_gone = vec!["c-b".into()];
    let plan = plan(&facts);
    let chain = plan.chains.iter().find(|chain| chain.len() > 2).unwrap();
    assert!(
        matches!(&chain[0], Step::ShowPod { member, shown: false, .. } if member == "c-b"),
        "{chain:?}"
    );
    assert!(matches!(chain[1], Step::RecordRecovery { .. }));
}

/// The facts after the new history was recorded.
fn opened(links: [Link; 3]) -> Facts {
    let mut facts = asked(links, RecoverySource::Best);
    facts.cluster.record.incarnation = 2;
    facts.cluster.record.token = Some("ns-c-uid-2".into());
    facts.cluster.record.cluster_id = Some(Id(77));
    facts.cluster.record.seed = Some(Seed {
        member: "c-c".into(),
        nonce: "n".repeat(32),
    });
    facts.recoveries[0].incarnation = Some(2);
    facts.recoveries[0].member = Some("c-c".into());
    facts
}

#[test]
fn d27_an_order_that_was_lost_is_sent_again_and_one_under_way_is_not() {
    let old = || fenced(report("c-c", DirectoryState::Intact, Some(log(3, 100, 90))));
    let others = || [up(fenced(unborn("c-a"))), up(fenced(unborn("c-b")))];
    let with = |report: Report| {
        let [a, b] = others();
        opened([a, b, up(report)])
    };
    assert_eq!(orders(&plan(&with(old()))), [("c-c", "Recover")]);
    let mut under_way = old();
    under_way.recovery = Some(super::super::report::Recovery {
        incarnation: 2,
        phase: RecoveryPhase::NeedsSpace,
        detail: String::new(),
        needed_bytes: 3 << 30,
        mode: String::new(),
        last: Position::default(),
        revision: 0,
    });
    let facts = with(under_way);
    assert!(orders(&plan(&facts)).is_empty());
    assert!(matches!(stage_of(&facts), Stage::NeedsSpace(why) if why.contains("3072 MiB")));
}

#[test]
fn d20_an_old_majority_that_comes_back_is_fenced_and_neither_counted_nor_set_aside() {
    let mut new = report("c-c", DirectoryState::InUse, None);
    if let Some(identity) = &mut new.directory.identity {
        (identity.incarnation, identity.cluster_id, identity.member_id) = (2, Id(77), Id(78));
    }
    if let Some(etcd) = &mut new.etcd {
        (etcd.cluster_id, etcd.member_id, etcd.leader, etcd.serving) = (Id(77), Id(78), Some(Id(78)), true);
    }
    let back = |name| {
        let mut report = report(name, DirectoryState::InUse, None);
        if let Some(etcd) = &mut report.etcd {
            (etcd.leader, etcd.serving) = (Some(id("c-a")), true);
        }
        report
    };
    let mut facts = opened([up(back("c-a")), up(back("c-b")), up(new)]);
    facts.members[2].record.binding = Some(Binding {
        id: Id(78),
        nonce: "nonce-c-c".into(),
    });
    facts.list = Fact::Known {
        value: MemberList {
            cluster_id: Some(Id(77)),
            members: vec![Listed {
                id: Id(78),
                name: "c-c".into(),
                peer_urls: vec!["http://c-c.c.ns.svc:2380".into()],
                learner: false,
            }],
        },
        at: now(),
    };
    facts.unproven_since = None;
    facts.recoveries[0].ended = true;
    let returned = plan(&facts);
    assert_eq!(orders(&returned), [("c-a", "Fence"), ("c-b", "Fence")]);
    assert_eq!(View::new(&facts).healthy_voters(), 1);

    // Fenced they stay what they are, and a person sees what they hold.
    for (place, name) in ["c-a", "c-b"].into_iter().enumerate() {
        let held = report(name, DirectoryState::Foreign, Some(log(4, 500, 500)));
        facts.members[place].link = up(fenced(held));
    }
    assert!(orders(&plan(&facts)).is_empty());
    let shown = candidates::all(&View::new(&facts));
    assert!(
        shown
            .iter()
            .any(|shown| shown.member == "c-a" && shown.log.is_some() && shown.why_not.is_some())
    );

    // Those that were fenced when the new history began hold nothing more than it does: they are filled again.
    let mut fenced_then = fenced(report("c-a", DirectoryState::Intact, Some(log(3, 90, 90))));
    fenced_then.directory.log = None;
    facts.members[0].link = up(fenced_then);
    assert_eq!(orders(&plan(&facts)), [("c-a", "Quarantine")]);
}

#[test]
fn fences_are_lifted_when_the_recovery_is_given_up() {
    let held = |name| up(fenced(report(name, DirectoryState::Intact, Some(log(3, 100, 90)))));
    let facts = facts([held("c-a"), held("c-b"), held("c-c")]);
    assert_eq!(
        orders(&plan(&facts)),
        [("c-a", "Lift"), ("c-b", "Lift"), ("c-c", "Lift")]
    );
    let mut by_hand = facts;
    for member in &mut by_hand.members {
        if let Link::Up { report, .. } = &mut member.link {
            report.directory.fence_ordered = false;
        }
    }
    assert!(orders(&plan(&by_hand)).is_empty(), "a person's fence is a person's");
}

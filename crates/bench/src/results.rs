//! Results of a run, as `crates/bench/performance.json` has them.

use crate::aim::{Aimed, Counterpart};
use crate::clause::GoalResult;
use crate::peer::{Missing, PeerMeasured, Peers, Present};
use serde::{Deserialize, Serialize};
use tidegate_measure::{Finished, RowResult};

/// A row with all its passes, and the peers beside each pass.
pub(crate) struct Taken {
    pub(crate) aimed: &'static Aimed,
    pub(crate) finished: Finished<'static>,
    pub(crate) peers: Beside,
}

/// Measurements of peers by pass, in the order of the row's counterparts; `None` for a peer that
/// was not measured.
pub(crate) type Beside = Vec<Vec<Option<PeerMeasured>>>;

impl Taken {
    /// A peer's measurement in a pass.
    pub(crate) fn peer(&self, key: &str, pass: usize) -> Option<&PeerMeasured> {
        let at = self.aimed.peers.iter().position(|peer| peer.is(key))?;
        self.peers[pass].get(at)?.as_ref()
    }

    /// The figures of its peers. The median pass of each is chosen by its ratio to the row.
    fn peers(&self) -> Vec<PeerResult> {
        let measured = |counterpart: &Counterpart| {
            let Counterpart::Calls { peer, key, calls, does, .. } = *counterpart else {
                return None;
            };
            let mut passes: Vec<(f64, &PeerMeasured)> = Vec::new();
            for (number, pass) in self.finished.passes().iter().enumerate() {
                let beside = self.peer(key, number)?;
                let own = pass.row.samples.median().max(f64::MIN_POSITIVE);
                passes.push((beside.samples.median() / own, beside));
            }
            passes.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (times_faster, beside) = *passes.get(passes.len() / 2)?;
            Some(PeerResult {
                peer: peer.to_owned(),
                key: key.to_owned(),
                calls: calls.to_owned(),
                does: does.to_owned(),
                median_ns: beside.samples.median(),
                p99_ns: beside.samples.p99(),
                times_faster,
                spread: [passes[0].0, passes[passes.len() - 1].0],
                bytes_each: beside.bytes_each,
                cpu_ns: beside.cpu_ns,
                note: beside.note.clone(),
            })
        };
        self.aimed.peers.iter().filter_map(measured).collect()
    }

    fn result(&self) -> AimedResult {
        let (pass, goal) = (self.finished.median_pass(), self.aimed.goal);
        AimedResult {
            row: self.finished.result(),
            goal: goal.map(|goal| goal.shown()),
            times_off_goal: goal
                .map(|goal| goal.off(pass.row.samples.median(), pass.floor.median())),
            peers: self.peers(),
            no_peer: self.aimed.peers.iter().find_map(|counterpart| match counterpart {
                Counterpart::None(why) => Some((*why).to_owned()),
                Counterpart::Calls { .. } => None,
            }),
        }
    }
}

/// The JSON form of everything.
#[derive(Deserialize, Serialize)]
pub(crate) struct Results {
    /// Processor and kernel.
    pub(crate) machine: String,
    pub(crate) passes: u32,
    /// The peers that could be measured beside the rows, and the missing ones.
    pub(crate) peers: Vec<Present>,
    pub(crate) missing_peers: Vec<Missing>,
    pub(crate) right: bool,
    pub(crate) goals: Vec<GoalResult>,
    pub(crate) rows: Vec<AimedResult>,
}

/// A row with its distance from the goal and its peers.
#[derive(Deserialize, Serialize)]
pub(crate) struct AimedResult {
    #[serde(flatten)]
    pub(crate) row: RowResult,
    pub(crate) goal: Option<String>,
    /// How many times worse than the goal; at most 1 is met.
    pub(crate) times_off_goal: Option<f64>,
    pub(crate) peers: Vec<PeerResult>,
    /// Why no peer has such a call.
    #[serde(default)]
    pub(crate) no_peer: Option<String>,
}

/// What a peer does in place of the row.
#[derive(Deserialize, Serialize)]
pub(crate) struct PeerResult {
    pub(crate) peer: String,
    pub(crate) key: String,
    pub(crate) calls: String,
    /// How it differs from the row.
    pub(crate) does: String,
    pub(crate) median_ns: f64,
    pub(crate) p99_ns: f64,
    /// The peer's time in times of the row's.
    pub(crate) times_faster: f64,
    /// The smallest and the largest of the passes.
    pub(crate) spread: [f64; 2],
    pub(crate) bytes_each: Option<u64>,
    pub(crate) cpu_ns: Option<f64>,
    pub(crate) note: Option<String>,
}

impl Results {
    pub(crate) fn of(
        rows: &[Taken],
        goals: Vec<GoalResult>,
        passes: u32,
        peers: Option<&Peers>,
    ) -> Results {
        Results {
            machine: machine(),
            passes,
            peers: peers.map_or_else(Vec::new, |peers| peers.present().to_vec()),
            missing_peers: peers.map_or_else(Vec::new, |peers| peers.missing().to_vec()),
            right: rows.iter().all(|taken| taken.finished.wrong_counts().is_empty()),
            goals,
            rows: rows.iter().map(Taken::result).collect(),
        }
    }
}

/// Processor model, processors and kernel of this machine.
fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let models = cpus.lines().filter_map(|line| line.strip_prefix("model name"));
    let model = models.clone().next().map_or("", |line| line.trim_start_matches([':', '\t', ' ']));
    let release = read("/proc/sys/kernel/osrelease");
    let kernel: Vec<&str> = release.trim().splitn(3, '.').take(2).collect();
    format!("{model}, {} processors, Linux {}", models.count(), kernel.join("."))
}

//! The laws of dependency: which crate may name which.
//!
//! The table is the picture of the architecture. The kernel, the driver, the user-mode side and the
//! hardware never name each other: they meet in `ddi`, `gpu-abi` and `calls`, so that any of them
//! can be replaced. Programs and user mode meet in `gpu-abi` too. Only the seam and its checker
//! name the machines. `explorer` knows no graphics. Only `cli`, `bench` and `fuzz` name
//! `scenarios`. Development dependencies obey the same table, with two exceptions: `conform`,
//! `explorer`, `testbed` and the facade may be one anywhere, and the crates at the top may use
//! anything.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::finding::Finding;

/// Each crate and those that it may name.
const LAYERS: &[(&str, &[&str])] = &[
    ("trace", &[]),
    ("hazard", &[]),
    ("wddm-abi", &[]),
    ("machines", &["trace"]),
    ("platform", &["hazard", "machines", "trace"]),
    ("check", &["machines", "platform"]),
    ("d3dukmdt", &["platform", "wddm-abi"]),
    ("ddi", &["d3dukmdt", "platform", "trace", "wddm-abi"]),
    ("gpu-abi", &["d3dukmdt", "platform"]),
    ("programs", &["gpu-abi", "platform"]),
    ("calls", &["d3dukmdt", "platform", "trace", "wddm-abi"]),
    ("softgpu", &["d3dukmdt", "gpu-abi", "platform", "programs", "trace", "hazard"]),
    ("explorer", &["platform"]),
    ("vidsch", &["calls", "ddi", "platform"]),
    ("vidmm", &["calls", "ddi", "platform"]),
    ("dxgkrnl", &["vidmm", "vidsch", "ddi", "calls", "d3dukmdt", "platform", "trace"]),
    ("ddi-c", &["ddi", "gpu-abi", "d3dukmdt", "platform", "wddm-abi"]),
    ("kmd", &["ddi", "gpu-abi", "d3dukmdt", "platform", "trace"]),
    ("d3d12", &["calls", "gpu-abi", "d3dukmdt", "platform", "trace", "hazard"]),
    ("service", &["calls", "dxgkrnl", "d3dukmdt", "platform", "trace"]),
    ("workload", &["d3dukmdt", "programs", "trace"]),
    ("runner", &["workload", "d3d12", "calls", "platform", "programs", "trace", "hazard"]),
    ("tidegate", BELOW_THE_FACADE),
    ("conform", &["tidegate"]),
    ("d3dkmt", &["tidegate", "calls", "d3dukmdt", "platform", "wddm-abi"]),
    ("testbed", WITH_THE_FACADE),
    ("scenarios", WITH_THE_TESTBED),
    ("swarm", WITH_CONFORM),
    ("measure", WITH_THE_FACADE),
    ("bench", WITH_SCENARIOS),
    ("cli", WITH_SCENARIOS),
    ("fuzz", WITH_THE_C_LIBRARY),
    ("peers", &["platform"]),
    ("xtask", &[]),
];

const BELOW_THE_FACADE: &[&str] = &[
    "trace", "hazard", "d3dukmdt", "programs", "platform", "ddi", "gpu-abi", "calls", "softgpu",
    "check", "explorer", "dxgkrnl", "kmd", "d3d12", "service", "workload", "runner",
];

const WITH_THE_FACADE: &[&str] = &[
    "trace", "hazard", "d3dukmdt", "programs", "platform", "ddi", "gpu-abi", "calls", "softgpu",
    "explorer", "dxgkrnl", "kmd", "d3d12", "service", "workload", "runner", "tidegate",
];

const WITH_THE_TESTBED: &[&str] = &[
    "trace", "hazard", "d3dukmdt", "programs", "platform", "ddi", "gpu-abi", "calls", "softgpu",
    "explorer", "dxgkrnl", "kmd", "d3d12", "service", "workload", "tidegate", "testbed",
];

const WITH_CONFORM: &[&str] = &[
    "conform", "trace", "hazard", "d3dukmdt", "programs", "platform", "ddi", "gpu-abi", "calls",
    "softgpu", "explorer", "dxgkrnl", "kmd", "d3d12", "service", "workload", "tidegate", "testbed",
];

const WITH_SCENARIOS: &[&str] = &[
    "conform",
    "trace",
    "hazard",
    "d3dukmdt",
    "platform",
    "ddi",
    "ddi-c",
    "gpu-abi",
    "calls",
    "softgpu",
    "explorer",
    "dxgkrnl",
    "kmd",
    "d3d12",
    "service",
    "workload",
    "runner",
    "tidegate",
    "testbed",
    "scenarios",
    "swarm",
    "measure",
];

const WITH_THE_C_LIBRARY: &[&str] = &[
    "trace",
    "hazard",
    "d3dukmdt",
    "platform",
    "ddi",
    "gpu-abi",
    "calls",
    "softgpu",
    "explorer",
    "dxgkrnl",
    "kmd",
    "d3d12",
    "service",
    "workload",
    "runner",
    "tidegate",
    "testbed",
    "scenarios",
    "swarm",
    "d3dkmt",
    "wddm-abi",
];

/// Crates whose development dependencies are free.
const TOP: &[&str] = &["tidegate", "scenarios", "cli"];

/// Crates that may be a development dependency anywhere.
const FREE: &[&str] = &["conform", "explorer", "testbed", "tidegate"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<PathBuf>,
}

/// Asks cargo for the packages of the workspace and holds them against the table.
pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cannot run cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    in_metadata(root, &text)
}

fn in_metadata(root: &Path, text: &str) -> Result<Vec<Finding>, String> {
    let metadata: Metadata =
        serde_json::from_str(text).map_err(|e| format!("cargo metadata: {e}"))?;
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let manifest = package.manifest_path.strip_prefix(root).unwrap_or(&package.manifest_path);
        let name = short(&package.name);
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            let what =
                format!("{name} is no known layer: give it a row in xtask/src/tidy/layers.rs");
            findings.push(Finding::of_file(manifest, what));
            continue;
        };
        let folder = manifest.parent().and_then(Path::file_name).unwrap_or_default();
        if folder != name {
            let what = format!(
                "package {} lies in folder {}: name both alike",
                package.name,
                folder.display()
            );
            findings.push(Finding::of_file(manifest, what));
        }
        for dependency in package.dependencies.iter().filter(|d| d.path.is_some()) {
            let named = short(&dependency.name);
            let dev = dependency.kind.as_deref() == Some("dev");
            let free = dev && (TOP.contains(&name) || FREE.contains(&named));
            if !free && !allowed.contains(&named) {
                let what = format!("{name} must not name {named}: {}", advice(name, named));
                findings.push(Finding::of_file(manifest, what));
            }
        }
    }
    Ok(findings)
}

/// The layer of a package: its name without the prefix of the house.
fn short(package: &str) -> &str {
    package.strip_prefix("tidegate-").unwrap_or(package)
}

fn advice(name: &str, named: &str) -> String {
    const SIDES: [&str; 4] = ["dxgkrnl", "kmd", "d3d12", "softgpu"];
    if SIDES.contains(&name) && SIDES.contains(&named) {
        "the sides meet in ddi, gpu-abi and calls".to_owned()
    } else if named == "scenarios" {
        "only cli may; put what is shared into tidegate".to_owned()
    } else if name == "explorer" {
        "it knows no graphics and stands on platform alone".to_owned()
    } else {
        let allowed =
            LAYERS.iter().find(|(layer, _)| *layer == name).map_or(&[][..], |(_, allowed)| allowed);
        match allowed {
            [] => "it stands on no crate of the house".to_owned(),
            some => format!("it may name {}", some.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(name: &str, dependency: &str, kind: &str) -> Vec<String> {
        let folder = short(name);
        let text = format!(
            "{{\"packages\":[{{\"name\":\"{name}\",\"manifest_path\":\"/r/crates/{folder}/Cargo.toml\",\
            \"dependencies\":[{{\"name\":\"{dependency}\",\"kind\":{kind},\"path\":\"/r/crates/x\"}},\
            {{\"name\":\"serde\",\"kind\":null}}]}}]}}"
        );
        in_metadata(Path::new("/r"), &text).unwrap().into_iter().map(|f| f.to_string()).collect()
    }

    #[test]
    fn the_table_is_obeyed() {
        assert!(findings("tidegate-kmd", "tidegate-ddi", "null").is_empty());
        let found = findings("tidegate-kmd", "tidegate-softgpu", "null");
        assert_eq!(
            found,
            [
                "crates/kmd/Cargo.toml: kmd must not name softgpu: the sides meet in ddi, gpu-abi and calls"
            ]
        );
        assert_eq!(findings("tidegate-explorer", "tidegate-trace", "null").len(), 1);
        assert_eq!(findings("tidegate-new", "tidegate-trace", "null").len(), 1);
    }

    #[test]
    fn development_dependencies_count_below_the_top() {
        assert_eq!(findings("tidegate-dxgkrnl", "tidegate-kmd", "\"dev\"").len(), 1);
        for anywhere in ["tidegate", "tidegate-explorer", "tidegate-testbed"] {
            assert!(findings("tidegate-kmd", anywhere, "\"dev\"").is_empty());
            assert_eq!(findings("tidegate-ddi", anywhere, "null").len(), 1);
        }
        assert!(findings("tidegate", "tidegate-scenarios", "\"dev\"").is_empty());
        assert_eq!(findings("tidegate", "tidegate-scenarios", "null").len(), 1);
    }

    #[test]
    fn the_sides_never_reach_each_other() {
        fn reach(name: &str, found: &mut Vec<&'static str>) {
            let allowed = LAYERS.iter().find(|(layer, _)| *layer == name).unwrap().1;
            for below in allowed {
                if !found.contains(below) {
                    found.push(below);
                    reach(below, found);
                }
            }
        }
        for side in ["dxgkrnl", "kmd", "d3d12", "softgpu"] {
            let mut found = Vec::new();
            reach(side, &mut found);
            assert!(
                !["dxgkrnl", "kmd", "d3d12", "softgpu"].iter().any(|other| found.contains(other)),
                "{side}"
            );
        }
    }

    #[test]
    fn the_table_has_no_cycle() {
        for (index, (_, allowed)) in LAYERS.iter().enumerate() {
            let above: Vec<&str> = LAYERS[index..].iter().map(|(name, _)| *name).collect();
            assert!(allowed.iter().all(|a| !above.contains(a)));
        }
    }
}

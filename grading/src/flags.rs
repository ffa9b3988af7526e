//! Flags: files of a patch that have a say in how the patch is judged.
//!
//! A flag changes no verdict. It tells the reader of a record where to look, and names the
//! files that a pristine runner puts back.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::log::markers;
use crate::patch::Patch;
use crate::rows::Row;

/// What part a file plays in the judging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlagKind {
    /// `conftest.py`: pytest runs it with the tests.
    Conftest,
    /// Run at every start of Python: `sitecustomize`, `usercustomize`, `*.pth`.
    PythonStartup,
    /// Configures the test runner, or may.
    RunnerConfig,
    /// Holds tests that the verdict counts, or is a directory above such.
    TestFile,
    /// Registers plugins: metadata of installed packages, `setup.py`.
    EntryPoint,
    /// Named by the eval script's test command, such as `tests/runtests.py`.
    TestRunner,
    /// Would be imported in place of the runner.
    RunnerModule,
    /// Compiled Python, which can stand in for a source file.
    CompiledCode,
}

/// A file of a patch with its part in the judging. Serialises as `{"path", "kind"}`, with
/// `path_b64` for a path that is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flag {
    /// The path, relative to the repository.
    pub path: PathBuf,
    /// Its part.
    pub kind: FlagKind,
}

impl Serialize for Flag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut flag = serializer.serialize_struct("Flag", 2)?;
        match self.path.to_str() {
            Some(path) => flag.serialize_field("path", path)?,
            None => flag.serialize_field(
                "path_b64",
                &STANDARD.encode(self.path.as_os_str().as_bytes()),
            )?,
        }
        flag.serialize_field("kind", &self.kind)?;
        flag.end()
    }
}

/// Configuration of runners by file name. A build file counts where it says how tests run.
const RUNNER_CONFIGS: [&str; 24] = [
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "pyproject.toml",
    "setup.cfg",
    "tox.ini",
    "tox.toml",
    "noxfile.py",
    ".coveragerc",
    "nose.cfg",
    ".noserc",
    "package.json",
    "karma.conf.js",
    "CMakeLists.txt",
    "CTestTestfile.cmake",
    "Makefile",
    "phpunit.xml",
    "phpunit.xml.dist",
    ".rspec",
    "Rakefile",
    "Cargo.toml",
    "pom.xml",
    "build.gradle",
];
/// Beginnings of file names that configure JavaScript runners in any of several formats.
const RUNNER_CONFIG_STEMS: [&str; 4] = [
    "jest.config.",
    "vitest.config.",
    ".mocharc",
    "babel.config.",
];
/// Modules run at every start of Python.
const STARTUP_MODULES: [&str; 2] = ["sitecustomize", "usercustomize"];
/// Modules of runners, which a file at the top of the repository would hide.
const RUNNER_MODULES: [&str; 7] = [
    "pytest", "_pytest", "pluggy", "unittest", "doctest", "nose", "xdist",
];

/// The flags of a patch for a row, by path.
///
/// The row contributes its test files (those of its test patch, those of pytest ids) and what
/// its eval script's test command names. Paths that tools may read differently are all judged.
#[must_use]
pub fn flags(patch: &Patch, row: &Row) -> Vec<Flag> {
    let tests = test_files(row);
    let (named, named_dirs) = named_by_script(row, &tests);
    let mut flags = BTreeSet::new();
    for path in patch.paths() {
        let mut add = |kind| {
            flags.insert(Flag {
                path: path.clone(),
                kind,
            })
        };
        for kind in by_name(&path) {
            add(kind);
        }
        // A patch can also replace a directory above the tests, by a link say.
        let holds = |known: &PathBuf| known.starts_with(&path);
        if tests.iter().any(holds) || named_dirs.iter().any(|dir| path.starts_with(dir)) {
            add(FlagKind::TestFile);
        }
        if named.iter().any(holds) {
            add(FlagKind::TestRunner);
        }
    }
    flags.into_iter().collect()
}

/// The parts that a path plays by its name alone.
fn by_name(path: &Path) -> Vec<FlagKind> {
    let components: Vec<_> = path
        .iter()
        .map(|component| component.to_string_lossy())
        .collect();
    let name = components.last().map_or("", |name| name);
    let module = |component: &str| component.split('.').next().unwrap_or_default().to_owned();
    let mut kinds = Vec::new();
    if name == "conftest.py" {
        kinds.push(FlagKind::Conftest);
    }
    if name.ends_with(".pth")
        || components
            .iter()
            .any(|part| STARTUP_MODULES.contains(&module(part).as_str()))
    {
        kinds.push(FlagKind::PythonStartup);
    }
    if RUNNER_CONFIGS.contains(&name)
        || RUNNER_CONFIG_STEMS
            .iter()
            .any(|stem| name.starts_with(stem))
    {
        kinds.push(FlagKind::RunnerConfig);
    }
    let metadata = |part: &str| part.ends_with(".dist-info") || part.ends_with(".egg-info");
    if name == "setup.py"
        || name == "entry_points.txt"
        || components.iter().any(|part| metadata(part))
    {
        kinds.push(FlagKind::EntryPoint);
    }
    let python = components.len() > 1 || name.ends_with(".py") || name.ends_with(".so");
    if python
        && components
            .first()
            .is_some_and(|top| RUNNER_MODULES.contains(&module(top).as_str()))
    {
        kinds.push(FlagKind::RunnerModule);
    }
    if name.ends_with(".pyc") || name.ends_with(".pyo") {
        kinds.push(FlagKind::CompiledCode);
    }
    kinds
}

/// Files that hold the row's tests, as far as the row says so.
fn test_files(row: &Row) -> BTreeSet<PathBuf> {
    let patch = Patch::read(row.test_patch.as_deref().unwrap_or_default().as_bytes());
    let ids = [&row.fail_to_pass, &row.pass_to_pass]
        .into_iter()
        .flatten()
        .flatten();
    let of_ids = ids
        .filter_map(|id| id.split_once("::"))
        .filter_map(|(file, _)| relative(file));
    patch.paths().into_iter().chain(of_ids).collect()
}

/// Files and directories that the test command names, apart from the tests themselves. The
/// command is what stands between the lines of the two markers.
fn named_by_script(row: &Row, tests: &BTreeSet<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let script = row.eval_script.as_deref().unwrap_or_default();
    let command = script
        .lines()
        .skip_while(|line| !line.contains(markers::START))
        .skip(1)
        .take_while(|line| !line.contains(markers::END));
    let words = command
        .flat_map(str::split_ascii_whitespace)
        .filter(|word| !word.starts_with('-'));
    let paths = words.filter_map(|word| relative(word.split("::").next()?));
    let (dirs, files): (Vec<_>, Vec<_>) = paths
        .filter(|path| !tests.contains(path))
        .partition(|path| tests.iter().any(|test| test.starts_with(path)));
    (files, dirs)
}

/// A word as a path below the repository.
fn relative(word: &str) -> Option<PathBuf> {
    let trimmed = word.trim_matches(['\'', '"', ';']);
    let path: PathBuf = Path::new(trimmed)
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    let plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    (plain && !path.as_os_str().is_empty()).then_some(path)
}

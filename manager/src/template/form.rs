//! The form of a slot: how it is put back, with whose rights, in which layout. A template may
//! leave it open; then the best is taken that the platform can make.

use super::{Carry, Error, Rights, Strategy, Template};

/// Where a slot's sandboxes get their root from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The machine's own execd: layers of its store, mounted with root's rights.
    Local,
    /// A pod of execd alone that is handed the store read only.
    Mounted,
    /// A pod that runs the task's image; its root is taken apart into overlays.
    Sliced,
    /// A pod that runs the task's image as it is.
    Plain,
}

impl Layout {
    /// The word in JSON and in execd's options.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Mounted => "mounted",
            Self::Sliced => "sliced",
            Self::Plain => "plain",
        }
    }
}

/// Strategy and rights of a slot, neither of them `auto`, the strategy not `none` either: a
/// sandbox that is used once is made like any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    strategy: Strategy,
    rights: Rights,
}

impl Form {
    /// Every form that there is, best first: whole overlays before slices before undoing, and the
    /// most rights that a manager may have before fewer.
    pub const ALL: [Self; 7] = [
        Self::new(Strategy::Layered, Rights::Root),
        Self::new(Strategy::Layered, Rights::Pod),
        Self::new(Strategy::Layered, Rights::User),
        Self::new(Strategy::Sliced, Rights::Pod),
        Self::new(Strategy::Sliced, Rights::User),
        Self::new(Strategy::InPlace, Rights::Pod),
        Self::new(Strategy::InPlace, Rights::User),
    ];

    const fn new(strategy: Strategy, rights: Rights) -> Self {
        Self { strategy, rights }
    }

    /// How slots are put back.
    pub fn strategy(self) -> Strategy {
        self.strategy
    }

    /// Whose rights their execd has.
    pub fn rights(self) -> Rights {
        self.rights
    }

    /// Where their sandboxes get their root from.
    pub fn layout(self) -> Layout {
        match (self.strategy, self.rights) {
            (Strategy::Sliced, _) => Layout::Sliced,
            (Strategy::InPlace, _) => Layout::Plain,
            (_, Rights::Pod | Rights::User) => Layout::Mounted,
            (_, Rights::Root | Rights::Auto) => Layout::Local,
        }
    }

    /// Which images a slot carries: its one image where that is the pod's own root.
    pub fn carry(self) -> Carry {
        match self.layout() {
            Layout::Local | Layout::Mounted => Carry::Any,
            Layout::Sliced | Layout::Plain => Carry::Own,
        }
    }

    /// The forms that a wish leaves, best first.
    pub fn wished(strategy: Strategy, rights: Rights) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |form| {
            let strategy = match strategy {
                Strategy::Auto | Strategy::None => true,
                Strategy::Layered | Strategy::Sliced | Strategy::InPlace => {
                    form.strategy == strategy
                }
            };
            strategy && (rights == Rights::Auto || form.rights == rights)
        })
    }
}

/// What goes where a template says `auto`: options of the manager.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Defaults {
    /// Its strategy.
    pub strategy: Strategy,
    /// Its rights.
    pub rights: Rights,
}

/// Chooses the form of a template's slots and writes it into the template, so that nothing later
/// depends on what this machine could do or was told. `refusal` says why a form cannot be made
/// here, as a sentence; None where it can.
///
/// # Errors
/// [`Error::Form`] with the reason of the best form that was wished for.
pub fn settle(
    template: &mut Template,
    defaults: Defaults,
    refusal: impl Fn(Form) -> Option<String>,
) -> Result<Form, Error> {
    if template.strategy == Strategy::Auto {
        template.strategy = defaults.strategy;
    }
    if template.rights == Rights::Auto {
        template.rights = defaults.rights;
    }
    let form = choose(template.strategy, template.rights, refusal)?;
    if template.strategy != Strategy::None {
        template.strategy = form.strategy;
    }
    template.rights = form.rights;
    Ok(form)
}

/// The best form that a wish leaves and `refusal` lets pass.
///
/// # Errors
/// [`Error::Value`] where no such form exists, [`Error::Form`] where none can be made here.
pub fn choose(
    strategy: Strategy,
    rights: Rights,
    refusal: impl Fn(Form) -> Option<String>,
) -> Result<Form, Error> {
    let mut first = None;
    for form in Form::wished(strategy, rights) {
        match refusal(form) {
            None => return Ok(form),
            Some(reason) => drop(first.get_or_insert(reason)),
        }
    }
    match first {
        Some(reason) => Err(Error::Form(reason)),
        None => Err(Error::Value(format!(
            "strategy {} is for pods, which have no root's rights: write rights pod or user, or \
             leave it out",
            strategy.as_str()
        ))),
    }
}

impl Template {
    /// The form that its settled fields say. One that was never settled is of the machine's own
    /// execd.
    pub(super) fn form(&self) -> Form {
        Form::wished(self.strategy, self.rights)
            .next()
            .unwrap_or(Form::ALL[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(rights: Rights) -> impl Fn(Form) -> Option<String> {
        move |form| (form.rights() != rights).then(|| format!("no {}", form.rights().as_str()))
    }

    #[test]
    fn the_best_that_the_platform_can_make_is_taken() {
        let form = |text: &str, rights| {
            let mut template: Template = text.parse().unwrap();
            let form = settle(&mut template, Defaults::default(), only(rights))?;
            assert_eq!(template.form(), form, "the template says what was chosen");
            Ok::<_, Error>((form.strategy().as_str(), form.layout().as_str()))
        };
        assert_eq!(form("{}", Rights::Root).unwrap(), ("layered", "local"));
        assert_eq!(form("{}", Rights::User).unwrap(), ("layered", "mounted"));
        let in_place = form("strategy: in-place", Rights::Pod).unwrap();
        assert_eq!(in_place, ("in-place", "plain"));
        let once = form("strategy: none", Rights::Root).unwrap();
        assert_eq!(once, ("layered", "local"));
        let refused = form("rights: pod", Rights::Root).unwrap_err();
        assert!(matches!(refused, Error::Form(_)), "{refused}");
        let nonsense = form("{strategy: sliced, rights: root}", Rights::Root).unwrap_err();
        assert!(nonsense.to_string().contains("rights pod"), "{nonsense}");
    }

    #[test]
    fn the_managers_options_fill_in_what_a_template_leaves_open() {
        let defaults = Defaults {
            strategy: Strategy::Sliced,
            rights: Rights::Pod,
        };
        let settled = |text: &str| {
            let mut template: Template = text.parse().unwrap();
            let form = settle(&mut template, defaults, |_| None)?;
            Ok::<_, Error>((form.strategy(), form.rights()))
        };
        let open = settled("{}").unwrap();
        assert_eq!(open, (Strategy::Sliced, Rights::Pod));
        let own = settled("{strategy: layered, rights: root}").unwrap();
        assert_eq!(own, (Strategy::Layered, Rights::Root));
    }

    #[test]
    fn a_pod_that_runs_the_image_carries_it_alone() {
        for form in Form::ALL {
            let own = matches!(form.layout(), Layout::Sliced | Layout::Plain);
            assert_eq!(form.carry() == Carry::Own, own, "{form:?}");
        }
    }
}

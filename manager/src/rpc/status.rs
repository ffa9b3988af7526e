//! Errors of the manager's parts as gRPC statuses with a kind.

use tonic::{Code, Status};

use crate::client::{Kind, error_status as status};
use crate::engine::{NoLease, Refused};
use crate::{provider, state, template};

impl From<template::Error> for Status {
    fn from(error: template::Error) -> Self {
        let code = match &error {
            template::Error::Image(_) => Code::NotFound,
            template::Error::Read { .. }
            | template::Error::Parse(_)
            | template::Error::Value(_) => Code::InvalidArgument,
            template::Error::NotYet(_) => Code::Unimplemented,
            template::Error::Form(_) => Code::FailedPrecondition,
        };
        let kind = match &error {
            // What is asked for makes sense; this machine does not have it.
            template::Error::Image(_) | template::Error::Form(_) => Kind::Permanent,
            template::Error::Read { .. }
            | template::Error::Parse(_)
            | template::Error::Value(_)
            | template::Error::NotYet(_) => Kind::Usage,
        };
        status(kind, code, error.to_string())
    }
}

impl From<NoLease> for Status {
    fn from(error: NoLease) -> Self {
        status(Kind::Permanent, Code::NotFound, error.to_string())
    }
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        use innkeeper_pool::Refusal;
        let (kind, code) = match &refused {
            Refused::Stopping => (Kind::Transient, Code::Unavailable),
            Refused::Journal(_) => (Kind::Transient, Code::ResourceExhausted),
            Refused::Pool(refusal) => match refusal {
                Refusal::TimedOut { .. } => (Kind::Transient, Code::DeadlineExceeded),
                Refusal::Cancelled => (Kind::Transient, Code::Cancelled),
                Refusal::Draining => (Kind::Transient, Code::Unavailable),
                Refusal::TooLarge { .. } | Refusal::Conflict => {
                    (Kind::Usage, Code::FailedPrecondition)
                }
                Refusal::CreateFailed { .. }
                | Refusal::PrepareFailed { .. }
                | Refusal::SpecialiseFailed { .. } => (Kind::Permanent, Code::FailedPrecondition),
            },
        };
        status(kind, code, refused.to_string())
    }
}

impl From<state::Error> for Status {
    fn from(error: state::Error) -> Self {
        status(Kind::Transient, Code::ResourceExhausted, error.to_string())
    }
}

impl From<provider::Error> for Status {
    fn from(error: provider::Error) -> Self {
        let (kind, code) = match error.kind {
            provider::ErrorKind::Unreachable | provider::ErrorKind::Transient => {
                (Kind::Transient, Code::Unavailable)
            }
            provider::ErrorKind::Permanent => (Kind::Permanent, Code::Internal),
        };
        status(kind, code, error.message)
    }
}

/// A call that was wrong in itself.
pub(super) fn wrong(sentence: impl Into<String>) -> Status {
    status(Kind::Usage, Code::InvalidArgument, sentence)
}

//! Pools, leases, providers, front ends and the command line of innkeeper.
//!
//! The daemon in one paragraph: [`rpc`] takes calls of clients and asks the [`engine`], the one
//! task that owns the pool core. What the core decides is written to the journal in [`state`],
//! told in [`events`], and carried out on a [`provider`]. [`template`] turns the file that people
//! write into what execd builds from. [`serve`] puts these together behind sockets, and
//! [`embedded`] does so inside a command for as long as it runs.
#![forbid(unsafe_code)]

pub mod client;
pub mod embedded;
pub mod engine;
pub mod events;
pub mod metrics;
pub mod paths;
pub mod provider;
pub mod records;
pub mod rpc;
pub mod serve;
pub mod state;
pub mod template;

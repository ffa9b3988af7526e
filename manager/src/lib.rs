//! Pools, leases, providers, front ends and the command line of innkeeper.

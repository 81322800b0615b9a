/*
 * The placement policies, a row each: the number of it is TB_POLICY_<first column>, its code is tb_placement_<second>
 * in placement/<second>.c, then come its name in configurations and the one in a Hermes .conf, NULL where Hermes has none.
 */
#ifndef TB_CONFIG_POLICIES_H
#define TB_CONFIG_POLICIES_H

#define TB_POLICIES(ROW)                                       \
    ROW(MAX_BANDWIDTH, max_bandwidth, "max-bandwidth", NULL)   \
    ROW(DATA_LOCALITY, data_locality, "data-locality", NULL)   \
    ROW(HOT_DATA, hot_data, "hot-data", NULL)                  \
    ROW(USER_DEFINED, user_defined, "user-defined", NULL)      \
    ROW(RANDOM, random, "random", "Random")                    \
    ROW(ROUND_ROBIN, round_robin, "round-robin", "RoundRobin") \
    ROW(MINIMIZE_IO_TIME, minimize_io_time, "minimize-io-time", "MinimizeIoTime")

#define TB_POLICY_NUMBER(number, code, name, hermes) TB_POLICY_##number,
enum tb_policy { TB_POLICIES(TB_POLICY_NUMBER) TB_N_POLICIES };
#undef TB_POLICY_NUMBER

#endif

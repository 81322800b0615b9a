/*
 * The counters of instances as OpenMetrics text.
 */
#ifndef TB_CTL_COMMON_OPENMETRICS_H
#define TB_CTL_COMMON_OPENMETRICS_H

/*
 * Of the instance named, or of all of this user's. To stdout, or to a file that is replaced at once: a reader meets the
 * old text or the new one. What does not run has no samples, so that no old number stays in the file. Prints what is
 * wrong; returns the exit status.
 */
int ctl_openmetrics(const char *instance, const char *file);

#endif

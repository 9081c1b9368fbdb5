"""The keys of a cloud-config, one planner for each module. Pure, like plan/: a Request and facts in, a Plan out.

request      what every module is given
steps        names and ways that several modules use
file_steps   the same for modules that write system files, and how they read their keys

The rows in run/ say in which stage, in which order and how often a module runs, and which facts it reads.
"""

"""`./run bench`: what the product costs, against the limit of the database and against what one would write instead.

Each measurement interleaves its sides in one run and quotes medians: ratios hold from machine to machine, times do not.
Nothing of the product imports anything from here.
"""

"""The mathematics of BMLPL ([B]): labels as thresholded counts, which come from topics; functions of arrays alone.

Letters: N points, D features, K labels, T topics. The paper calls labels L and topics K.
"""
